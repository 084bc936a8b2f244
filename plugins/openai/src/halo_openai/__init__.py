"""Models behind the chat-completions protocol: any base URL."""
