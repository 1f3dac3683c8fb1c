// The page: a conversation, and beside it how its tokens came.

import { Announcer } from "./announcer.js";
import { Answer } from "./answer.js";
import { fetchProps, streamChat } from "./api.js";
import { ChatView } from "./chat_view.js";
import { byId, count, speed } from "./elements.js";
import { LegendView } from "./legend_view.js";
import { RoundsView } from "./rounds_view.js";
import { Settings } from "./settings.js";
import { SpeedView } from "./speed_view.js";
import { WorkView } from "./work_view.js";

const kPlain = "autoregressive";
const kFiguresMs = 250; // figures that change faster cannot be read

let messages = []; // {role, content} of the conversation; another list for each
let shown = null; // the answer whose speculation is shown
let running = null; // {controller, answer, of, ended}; of: what it is to be compared with, or null
let figuresAt = 0;

const announcer = new Announcer();
const legend = new LegendView();
const speeds = new SpeedView();
const work = new WorkView();
const settings = new Settings(() => readProps());
const chat = new ChatView((answer, roundIdx) => {
  if (answer !== shown) show(answer);
  if (roundIdx !== null) rounds.pick(roundIdx);
});
const rounds = new RoundsView((roundIdx) => chat.mark(shown, roundIdx));

function show(answer) {
  shown = answer;
  rounds.show(answer);
  showFigures();
}

function showFigures() {
  figuresAt = performance.now();
  legend.show(shown);
  work.show(shown);
  const words = speeds.show(shown);
  const able = !running && shown?.done && shown.tokens.length > 1 && !shown.error;
  keepFocus(() => {
    byId("compare").disabled = !able;
    byId("compare").hidden = Boolean(running?.of);
    byId("compare-stop").hidden = !running?.of;
  });
  return words;
}

// Focus does not fall out of the page with a button that `change` takes away.
function keepFocus(change) {
  const { activeElement } = document;
  change();
  if (!activeElement?.hidden && !activeElement?.disabled) return;
  const next = { compare: "compare-stop", "compare-stop": "compare" }[activeElement.id];
  byId(next ?? "message").focus();
}

// Runs a request into `answer`, for comparison with `of` unless that is null; `onPieces` gets what
// its text grows by. Never throws.
async function run(answer, of, onPieces) {
  let end;
  const ended = new Promise((resolve) => (end = resolve));
  const controller = new AbortController();
  running = { controller, answer, of, ended };
  showRunning();
  showFigures();
  try {
    for await (const chunk of streamChat(answer.request, settings.key, controller.signal)) {
      onPieces(answer.add(chunk));
      if (performance.now() - figuresAt > kFiguresMs) showFigures();
    }
  } catch (error) {
    if (controller.signal.aborted) answer.stopped = true;
    else answer.error = error;
  }
  onPieces(answer.finish());
  running = null;
  showRunning();
  end();
}

function showRunning() {
  const busy = Boolean(running) && !running.of;
  keepFocus(() => {
    byId("send").hidden = busy;
    byId("stop").hidden = !busy;
  });
  byId("conversation").setAttribute("aria-busy", busy);
}

async function send() {
  if (running?.of || running?.controller.signal.aborted) {
    const { ended } = running; // a comparison gives way
    stop();
    await ended;
  }
  const text = byId("message").value;
  if (running || !text.trim()) return;
  byId("message").value = "";
  const conversation = messages;
  conversation.push({ role: "user", content: text });
  const answer = new Answer(settings.request([...conversation]));
  chat.addQuestion(text);
  chat.addAnswer(answer);
  show(answer);
  announcer.begin();
  announcer.status("The answer comes.");
  await run(answer, null, (pieces) => {
    chat.append(answer, pieces);
    announcer.add(pieces.map((piece) => piece.text).join(""));
    if (answer === shown) rounds.update();
  });
  if (conversation !== messages) return showFigures(); // a new chat has begun
  // What was never answered is not asked again with the next message.
  if (answer.text) conversation.push({ role: "assistant", content: answer.text });
  else conversation.pop();
  if (answer.error && !answer.text && !byId("message").value) byId("message").value = text;
  chat.finish(answer);
  announcer.end();
  announcer.status(endOf(answer));
  if (answer === shown) rounds.update();
  showFigures();
  if (answer.error?.status === 401) settings.open("key");
}

function endOf(answer) {
  if (answer.error) return ""; // an alert says it
  const rate = answer.tokensPerSecond > 0 ? `, ${speed(answer.tokensPerSecond)}` : "";
  return `${answer.stopped ? "Stopped" : "The answer is complete"}: ${count(answer.tokens.length, "token")}${rate}.`;
}

// The same request twice more, as it was and decoded plainly; as long as what there is of the answer.
// Neither is drawn: that takes time too where the server runs on the same machine.
async function compare() {
  const answer = shown;
  if (running || !answer) return;
  const request = { ...answer.request };
  if (answer.stopped) request.max_tokens = answer.tokens.length;
  byId("compare-error").textContent = "";
  answer.plain = null;
  announcer.status("Comparing.");
  for (const [name, changes] of [
    ["again", {}],
    ["plain", { strategy: kPlain, speculation: undefined }],
  ]) {
    const trial = new Answer({ ...request, ...changes });
    answer[name] = trial;
    await run(trial, answer, () => {});
    if (!trial.error && !trial.stopped) continue;
    byId("compare-error").textContent = trial.error?.message ?? "";
    answer.again = answer.plain = null;
    break;
  }
  announcer.status(showFigures());
}

function stop() {
  running?.controller.abort();
}

function clear() {
  stop();
  messages = [];
  chat.clear();
  announcer.begin();
  show(null);
  byId("message").focus();
}

async function readProps() {
  const model = byId("model");
  try {
    const props = await fetchProps(settings.key);
    model.textContent = props.model_alias;
    model.title = props.numeric_fingerprint ?? "";
    document.title = `${props.model_alias} · Forerun`;
    const defaults = props.default_generation_settings ?? {};
    byId("temperature").placeholder = `the model's own: ${defaults.temperature ?? "?"}`;
    byId("top-p").placeholder = `the model's own: ${defaults.top_p ?? "?"}`;
    settings.offer(props.strategies ?? [], props.tree_shapes ?? []);
  } catch (error) {
    model.textContent = error.message;
    if (error.status === 401) {
      model.textContent = "needs an API key";
      settings.open("key");
    }
  }
}

byId("composer").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});
byId("message").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || !running || settings.isOpen) return;
  event.preventDefault();
  stop();
});
byId("stop").addEventListener("click", stop);
byId("compare").addEventListener("click", compare);
byId("compare-stop").addEventListener("click", stop);
byId("new-chat").addEventListener("click", clear);
for (const example of document.querySelectorAll("#welcome button")) {
  example.addEventListener("click", () => {
    byId("message").value = example.textContent;
    send();
  });
}

readProps();
