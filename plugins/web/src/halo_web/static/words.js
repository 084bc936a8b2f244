// What the page says, in the reader's language.

const EN = {
  newChat: "New chat",
  chats: "Chats",
  noChats: "No chats yet",
  older: "Show older chats",
  workspace: "Workspace",
  menu: "Show chats",
  close: "Close",
  untitled: "Untitled chat",
  conversation: "Conversation",
  message: "Message",
  placeholder: "Ask, or say what to do",
  hint: "Enter sends, Shift+Enter starts a new line",
  send: "Send",
  stop: "Stop",
  stopping: "Stopping…",
  you: "You",
  welcome: "What shall we do?",
  welcomeIn: "The agent reads and works in",
  suggest: ["Which files are here?", "What is README.md about?", "Find TODO in all files"],
  working: "Working",
  thinking: "Reasoning",
  copy: "Copy",
  copied: "Copied",
  arguments: "Arguments",
  result: "Result",
  noResult: "The tool answered nothing.",
  clipped: "The first {shown} of {all} characters.",
  running: "running",
  ok: "done",
  failed: "failed",
  denied: "refused",
  interrupted: "interrupted",
  not_run: "not run",
  cut: "The answer was cut off here.",
  cancelled: "Stopped",
  wasInterrupted: "Interrupted",
  discarded: "Attempt {attempt} failed: {error}",
  resumed: "The server was started again. The agent goes on.",
  rules: "Built-in rules",
  noModel: "No model is running — built-in rules answer",
  noAnswerer: "No model is running — nothing can answer",
  howModel: "How to get a model",
  modelOne: "Local: install Ollama (or LM Studio), start it and load a model that can use tools. Halo finds it by itself.",
  modelTwo: "Hosted: give Halo the key of a provider that speaks chat completions, for example in the environment variable OPENAI_API_KEY, and start it again.",
  modelSeen: "What Halo found on this machine:",
  look: "Look again",
  sending: "Sending…",
  queued: "Waiting: the agent reads this after its current step",
  unsent: "Not sent yet — the server cannot be reached. Trying again.",
  notSent: "Not sent: {error}",
  retry: "Try again",
  discard: "Discard",
  lost: "Connection lost. Trying again…",
  stopped: "The server was stopped. Start it with",
  back: "This page goes on by itself then.",
  retryNow: "Try now",
  unreachable: "The server cannot be reached.",
  signIn: "Sign in",
  signInLink: "Run this on the machine where Halo runs. It opens this page signed in, or prints a link that does.",
  password: "Password",
  signInPassword: "Or sign in with the server's password:",
  wrongPassword: "That is not the password.",
  noWorkspace: "There is no workspace yet",
  noWorkspaceHow: "A workspace is a folder that the agent works in. Run this in the folder you want to talk about:",
  otherWorkspace: "The workspace in this page's address is not known here, so this is the one used last.",
  noSession: "This chat does not exist here, or it is not yours.",
  finished: "The answer is complete.",
  jump: "Jump to the latest",
  answered: "Answered by {model}",
  now: "now",
  error_throttle: "The provider refuses more calls for now. Wait a little, then send again.",
  error_server: "The provider has a fault of its own. Send again, or choose another model.",
  error_network: "The model's server could not be reached or the connection was cut. Check that it runs and that its address is right.",
  error_timeout: "The model gave no sign of life for too long. Send again, or choose a faster model.",
  error_account: "The provider does not accept the key. Check the key and the account's balance in Halo's settings.",
  error_overflow: "The conversation is too long for this model. Start a new chat, or choose a model with a larger context.",
  error_refused: "The provider refuses this request. Check the agent's model and its options.",
  error_empty: "The model answered nothing. Send again, or choose another model.",
  error_none: "No model can answer. See “How to get a model” above.",
  error_other: "Send again. If it happens again, `halo logs` shows more.",
  errorTitle: "This turn failed",
};

const ZH = {
  newChat: "新对话",
  chats: "对话",
  noChats: "还没有对话",
  older: "显示更早的对话",
  workspace: "工作区",
  menu: "显示对话列表",
  close: "关闭",
  untitled: "未命名对话",
  conversation: "对话内容",
  message: "消息",
  placeholder: "提问，或说出要做的事",
  hint: "Enter 发送，Shift+Enter 换行",
  send: "发送",
  stop: "停止",
  stopping: "正在停止…",
  you: "你",
  welcome: "我们做点什么？",
  welcomeIn: "智能体读取并工作的文件夹：",
  suggest: ["这里有哪些文件？", "README.md 讲了什么？", "在所有文件中查找 TODO"],
  working: "正在处理",
  thinking: "思考过程",
  copy: "复制",
  copied: "已复制",
  arguments: "参数",
  result: "结果",
  noResult: "工具没有返回内容。",
  clipped: "共 {all} 个字符，显示前 {shown} 个。",
  running: "运行中",
  ok: "完成",
  failed: "失败",
  denied: "被拒绝",
  interrupted: "被中断",
  not_run: "未运行",
  cut: "回答在这里中断。",
  cancelled: "已停止",
  wasInterrupted: "已中断",
  discarded: "第 {attempt} 次尝试失败：{error}",
  resumed: "服务器已重新启动，智能体继续工作。",
  rules: "内置规则",
  noModel: "没有模型在运行，由内置规则回答",
  noAnswerer: "没有模型在运行，无法回答",
  howModel: "如何获得模型",
  modelOne: "本地：安装并启动 Ollama（或 LM Studio），加载一个支持工具调用的模型，Halo 会自动找到它。",
  modelTwo: "云端：把兼容 chat completions 的服务商密钥交给 Halo，例如设置环境变量 OPENAI_API_KEY，然后重新启动。",
  modelSeen: "Halo 在这台机器上找到的：",
  look: "重新检查",
  sending: "正在发送…",
  queued: "等待中：智能体完成当前步骤后会读到这条消息",
  unsent: "尚未发送：无法连接服务器，正在重试。",
  notSent: "未发送：{error}",
  retry: "重试",
  discard: "放弃",
  lost: "连接已断开，正在重试…",
  stopped: "服务器已停止。启动命令：",
  back: "启动后本页会自动继续。",
  retryNow: "立即重试",
  unreachable: "无法连接服务器。",
  signIn: "登录",
  signInLink: "在运行 Halo 的机器上执行下面的命令，它会打开已登录的页面，或者给出一个登录链接。",
  password: "密码",
  signInPassword: "或者用服务器密码登录：",
  wrongPassword: "密码不正确。",
  noWorkspace: "还没有工作区",
  noWorkspaceHow: "工作区是智能体工作的文件夹。在你想讨论的文件夹里运行：",
  otherWorkspace: "地址中的工作区在这里不存在，现在显示的是最近使用的工作区。",
  noSession: "这个对话不存在，或者不属于你。",
  finished: "回答完成。",
  jump: "跳到最新",
  answered: "由 {model} 回答",
  now: "刚刚",
  error_throttle: "服务商暂时拒绝更多请求。稍等片刻再发送。",
  error_server: "服务商自身出错。请重新发送，或换一个模型。",
  error_network: "无法连接模型服务器，或连接中断。请检查它是否在运行、地址是否正确。",
  error_timeout: "模型太久没有响应。请重新发送，或换一个更快的模型。",
  error_account: "服务商不接受这个密钥。请在 Halo 设置中检查密钥和账户余额。",
  error_overflow: "对话对这个模型来说太长了。请开始新对话，或换一个上下文更大的模型。",
  error_refused: "服务商拒绝了这个请求。请检查智能体的模型和选项。",
  error_empty: "模型没有回答任何内容。请重新发送，或换一个模型。",
  error_none: "没有可以回答的模型。请看上方的“如何获得模型”。",
  error_other: "请重新发送。如果再次发生，`halo logs` 会显示更多信息。",
  errorTitle: "这一轮失败了",
};

const chinese = /^zh\b/i.test(navigator.language || "");
const words = chinese ? ZH : EN;

export const language = chinese ? "zh-CN" : "en";

/** The words called `name`, with `{marks}` filled from `values`. */
export function t(name, values = {}) {
  const found = words[name];
  return typeof found === "string" ? found.replace(/\{(\w+)\}/g, (_, mark) => values[mark] ?? "") : found;
}

/** What a person can do about an error of this kind. */
export function advice(kind) {
  return words[`error_${kind}`] || words.error_other;
}

const clock = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit" });
const day = new Intl.DateTimeFormat(language, { month: "short", day: "numeric" });
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto", style: "short" });

export function timeOf(at) {
  return clock.format(at);
}

/** How long ago, short enough for a list. */
export function since(at) {
  const minutes = Math.round((Date.now() - at) / 60_000);
  if (minutes < 1) return t("now");
  if (minutes < 60) return relative.format(-minutes, "minute");
  if (minutes < 24 * 60) return relative.format(-Math.round(minutes / 60), "hour");
  return day.format(at);
}
