// The only script of the console. Each page works without it; it adds live figures, keys, and times that stay true.
"use strict";
(() => {
  const $ = (selector, from = document) => from.querySelector(selector);
  const $$ = (selector, from = document) => [...from.querySelectorAll(selector)];

  // ---- times: what is shown grows old; the whole time stands in datetime ----

  const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
  const two = (n) => String(n).padStart(2, "0");
  function clock(at, now) {
    const ago = (now - at) / 1000;
    const hours = two(at.getUTCHours()) + ":" + two(at.getUTCMinutes());
    if (ago >= 0 && ago < 60) return Math.floor(ago) + " s ago";
    if (at.toISOString().slice(0, 10) === now.toISOString().slice(0, 10)) return hours;
    if (Math.abs(ago) < 6 * 86400) return days[at.getUTCDay()] + " " + hours;
    return null;
  }
  function renewTimes() {
    const now = new Date();
    for (const t of $$("time[datetime]")) {
      if (!/ago$/.test(t.textContent)) continue;
      const text = clock(new Date(t.dateTime), now);
      if (text && text !== t.textContent) t.textContent = text;
    }
  }
  setInterval(renewTimes, 1000);

  // ---- live: the page loads itself, and parts marked data-live are exchanged where they differ ----

  const state = $("#live .live");
  const pause = $("#pause");
  let asOf = $("#live .live b")?.textContent ?? "";
  let paused = false, mark = null, shownAt = 0, waits = 0, loading = false;

  function say(text, kind) {
    if (!state) return;
    state.className = "live" + (kind ? " " + kind : "");
    state.textContent = text;
  }
  // busy: under the pointer, in the hands of the keyboard, or with something that a person has opened or ticked. The button of a
  // form that was closed has the focus, and keeps nothing waiting: the button in its place gets the focus.
  const closedForm = "details.ask:not([open]) > summary";
  const busy = (part) => part.matches(":hover") || part.matches(":focus-within") && !$(closedForm + ":focus", part) || $("details[open], input:checked", part) !== null;

  // reload loads the page anew, once: asking again while the answer is under way would begin all over. A text that a person is
  // writing would be lost, so the page stays as it is then.
  const written = (field) => field.matches(":focus") || field.value !== field.defaultValue || field.checked !== field.defaultChecked;
  let leaving = false;
  function reload() {
    if (leaving || $$("input:not([type=hidden]), textarea").some(written) || $("select:focus")) return;
    leaving = true;
    location.reload();
  }

  // Parts change all together or not at all: figures of two moments on one page would contradict each other.
  async function renew(force) {
    if (loading || paused && !force) return;
    loading = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Fragment": "1" }, credentials: "same-origin" });
      if (answer.status === 401) { signedOut(); return; }
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const isOld = $("main.old-figures", next) !== null;
      if (isOld !== ($("main.old-figures") !== null)) { if (isOld) say("Not live", "old"); reload(); return; }
      if (!answer.ok) return;
      const changes = [];
      let gone = 0;
      for (const part of $$("[data-live]")) {
        const other = next.getElementById(part.id);
        if (!other) gone++;
        else if (other.innerHTML !== part.innerHTML) changes.push([part, other]);
      }
      if (!force && changes.some(([part]) => busy(part))) { waits = changes.length + gone; tell(); return; }
      waits = gone;
      for (const [part, other] of changes) {
        const focused = $(closedForm + ":focus", part)?.textContent;
        part.innerHTML = other.innerHTML;
        if (focused) $$(closedForm, part).find((s) => s.textContent === focused)?.focus({ preventScroll: true });
        if (part.dataset.state === other.dataset.state) continue;
        part.dataset.state = other.dataset.state;
        $("main > .notice")?.remove(); // it was about the state before
      }
      for (const [i, n] of $$("#menu a").entries()) {
        const other = $$("#menu a", next)[i];
        if (other && other.innerHTML !== n.innerHTML) n.innerHTML = other.innerHTML;
      }
      for (const seen of ["#menu .counted", "#live .live b"]) {
        const other = $(seen, next);
        if (other && $(seen)) $(seen).innerHTML = other.innerHTML;
        if (other && seen.startsWith("#live")) asOf = other.textContent;
      }
      if ($("h1", next)) document.title = next.title;
      shownAt = Date.now();
      tell();
    } catch { say("Not live", "old"); } finally { loading = false; }
  }
  function tell() {
    if (paused) { say("Paused" + (waits ? ", changes wait" : ""), "paused"); return; }
    say((waits ? "Changes wait; as of " : "Live, as of ") + asOf);
  }
  // signedOut ends what the page shows: the next page says why, and leads back here.
  function signedOut() { say("Signed out", "old"); location.reload(); }

  if (pause && $("[data-live]") && "EventSource" in window) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.firstChild.textContent = paused ? "Go on " : "Pause ";
      tell();
      if (!paused) renew(true);
    });
    // The stream says something every few seconds, also when nothing is new. A server or a network that is silent says nothing,
    // and closes nothing.
    let source, tries = 0, retry = 0, heardAt = Date.now();
    const heard = () => { heardAt = Date.now(); };
    setInterval(() => { if (Date.now() - heardAt > 6000 && state.textContent !== "Signed out") say("Not live", "old"); }, 1000);
    const hear = () => {
      source = new EventSource("/console/events");
      source.addEventListener("open", () => { tries = 0; });
      for (const kind of ["open", "figures", "away"]) source.addEventListener(kind, heard);
      source.addEventListener("figures", (e) => {
        if ($("main.old-figures")) { reload(); return; }
        const changed = mark !== null && e.data !== mark;
        mark = e.data;
        if (shownAt === 0) shownAt = Date.now();
        if (state.textContent === "Not live" || state.textContent.startsWith("As of")) tell();
        if (paused) { if (changed) { waits++; tell(); } return; }
        if (document.hidden) return;
        if (changed || waits || Date.now() - shownAt > 20000) renew(false);
      });
      source.addEventListener("away", () => { say("Not live", "old"); if (!$("main.old-figures")) reload(); });
      source.addEventListener("ended", signedOut);
      source.addEventListener("error", async () => {
        say("Not live", "old");
        if (source.readyState !== EventSource.CLOSED) return; // the browser tries again by itself
        // It does not after an answer that is no stream: a server that stops, a proxy without one, the end of the session.
        retry = setTimeout(hear, Math.min(1000 * 2 ** tries++, 30000));
        const answer = await fetch(location.href, { headers: { "X-Fragment": "1" }, credentials: "same-origin" }).catch(() => null);
        if (answer?.status === 401) { clearTimeout(retry); signedOut(); }
      });
    };
    hear();
    addEventListener("pagehide", () => { clearTimeout(retry); source.close(); });
    document.addEventListener("visibilitychange", () => { if (!document.hidden) renew(false); });
  }

  // ---- picking: how many are ticked ----

  // The form may be exchanged by what is live, so the document listens.
  function showPicked() {
    const picks = $("#picks"), text = $("#picked");
    if (!picks || !text) return;
    const n = $$("input[name=id]:checked", picks).length;
    for (const tr of $$("tr[data-row]", picks)) tr.classList.toggle("picked", $("input[name=id]", tr)?.checked);
    text.plain ??= text.innerHTML;
    if (n) { text.textContent = n + " picked"; } else { text.innerHTML = text.plain; }
  }
  document.addEventListener("change", (e) => { if (e.target.closest?.("#picks")) showPicked(); });
  showPicked();

  // ---- one open form at a time; Escape closes it ----

  document.addEventListener("toggle", (e) => {
    if (!e.target.matches?.("details.ask") || !e.target.open) return;
    for (const other of $$("details.ask[open]")) if (other !== e.target) other.open = false;
    const field = $("input:not([type=hidden]), select, textarea", e.target);
    field?.focus();
    if (field?.matches("input")) field.select(); // what is typed takes the place of what is there
  }, true);

  // ---- keys ----

  const keys = [["/", "Search"], ["j k", "Next, previous"], ["Enter", "Open"], ["x", "Pick"], ["a", "Give to"], ["r", "Resolve"], ["p", "Pause live figures"],
    ["g n", "Now"], ["g c", "Causes"], ["g i", "Investigations"], ["g o", "Operations"], ["g b", "Outbox"], ["g t", "Tasks"], ["g u", "Consumers"], ["g s", "Sources"], ["g d", "Doctor"], ["?", "These keys"], ["Esc", "Close"]];
  const places = { n: "/", c: "/causes", i: "/investigations", o: "/operations", b: "/outbox", t: "/tasks", u: "/consumers", s: "/sources", d: "/doctor" };
  let going = 0, at = -1;
  const hint = $(".keys-hint");
  if (hint) hint.hidden = false;

  function help() {
    let d = $("dialog.keys");
    if (!d) {
      d = document.createElement("dialog");
      d.className = "keys";
      const h = document.createElement("h2");
      h.textContent = "Keys";
      const off = document.createElement("button");
      off.className = "btn";
      off.textContent = localStorage.getItem("keys") === "off" ? "Switch keys on" : "Switch keys off";
      off.addEventListener("click", () => { localStorage.setItem("keys", localStorage.getItem("keys") === "off" ? "on" : "off"); d.close(); d.remove(); });
      const list = document.createElement("dl");
      list.className = "facts";
      for (const [key, what] of keys) {
        const dt = document.createElement("dt"), kbd = document.createElement("kbd"), dd = document.createElement("dd");
        kbd.textContent = key;
        dt.append(kbd);
        dd.textContent = what;
        list.append(dt, dd);
      }
      const foot = document.createElement("p");
      foot.className = "do gap";
      const close = document.createElement("button");
      close.className = "btn main";
      close.textContent = "Close";
      close.autofocus = true; // Enter must not switch anything off
      close.addEventListener("click", () => d.close());
      foot.append(close, off);
      d.append(h, list, foot);
      document.body.append(d);
    }
    d.showModal();
  }
  function step(by) {
    const rows = $$("tr[data-row]");
    if (!rows.length) {
      const to = $("#neighbours a[rel=" + (by > 0 ? "next" : "prev") + "]");
      if (to) location.assign(to.href);
      return;
    }
    at = Math.max(0, Math.min(rows.length - 1, at + by));
    for (const r of rows) r.classList.remove("at");
    rows[at].classList.add("at");
    rows[at].scrollIntoView({ block: "nearest" });
    $("a.title, a", rows[at])?.focus({ preventScroll: true });
  }
  document.addEventListener("keydown", (e) => {
    if (e.key === "Escape") { for (const d of $$("details.ask[open]")) { d.open = false; $("summary", d).focus(); } return; }
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, textarea, select, [contenteditable]") || $("dialog[open]")) return;
    if (e.key === "?") { help(); e.preventDefault(); return; }
    if (localStorage.getItem("keys") === "off") return;
    if (Date.now() - going < 1200 && places[e.key]) { going = 0; location.assign(places[e.key]); return; }
    going = 0;
    switch (e.key) {
      case "g": going = Date.now(); return;
      case "/": { const q = $("#q"); if (q) { q.focus(); q.select(); } else location.assign("/investigations#q"); break; }
      case "j": step(1); break;
      case "k": step(-1); break;
      case "p": pause?.click(); break;
      case "x": { const box = $$("tr[data-row]")[at] && $("input[name=id]", $$("tr[data-row]")[at]); if (!box) return; box.checked = !box.checked; showPicked(); break; }
      case "a": case "r": { const s = $(`summary[data-key="${e.key}"]`); if (!s) return; s.parentElement.open = !s.parentElement.open; break; }
      default: return;
    }
    e.preventDefault();
  });
})();
