// Who answers: a model, the built-in rules, or nobody.

import { computed } from "@preact/signals";
import { Icon, html } from "./dom.js";
import { models, refreshModels } from "state";
import { t } from "./words.js";

const offers = computed(() => models.value?.models || []);
const choice = computed(() => offers.value.find((one) => one.model === models.value.chosen) || null);

/** The name for people of the model `id`; what is not a model is never shown as one. */
export function nameOf(id) {
  const offer = offers.value.find((one) => one.model === id);
  if (offer && !offer.is_model) return t("rules");
  return offer?.label || id;
}

export function ModelName({ testid }) {
  if (!choice.value) return null;
  const { model, is_model: real, reason } = choice.value;
  return html`<span class=${real ? "model" : "model rules"} data-testid=${testid} title=${reason}>${nameOf(model)}</span>`;
}

export function NoModel() {
  if (!models.value || choice.value?.is_model) return null;
  const seen = offers.value.filter((one) => one.is_model);
  return html`
    <section class="banner" data-testid="no-model" aria-label=${t("howModel")}>
      <${Icon} name="warn" />
      <details>
        <summary>
          <strong>${t(choice.value ? "noModel" : "noAnswerer")}</strong>
          <span class="more">${t("howModel")}</span>
        </summary>
        <ul>
          <li>${t("modelOne")}</li>
          <li>${t("modelTwo")}</li>
        </ul>
        ${seen.length > 0 &&
        html`<p>${t("modelSeen")}</p>
          <ul data-testid="offers">
            ${seen.map((one) => html`<li key=${one.model}><code>${one.model}</code> ${one.reason}</li>`)}
          </ul>`}
        <button type="button" class="plain" onClick=${() => refreshModels({ now: true })}>${t("look")}</button>
      </details>
    </section>
  `;
}
