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
    if (Math.abs(ago) < 20 * 3600) return hours;
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
  let paused = false, mark = null, shownAt = 0, waits = 0, loading = false;

  function say(text, kind) {
    if (!state) return;
    state.className = "live" + (kind ? " " + kind : "");
    state.textContent = text;
  }
  // busy: under the pointer, in the hands of the keyboard, or opened by a person.
  const busy = (part) => part.matches(":hover, :focus-within") || $("details[open]", part) !== null;

  async function renew(force) {
    if (loading || paused && !force) return;
    loading = true;
    try {
      const answer = await fetch(location.href, { headers: { "X-Fragment": "1" }, credentials: "same-origin" });
      if (answer.status === 401) { location.reload(); return; }
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const isOld = $("main.old-figures", next) !== null;
      if (isOld !== ($("main.old-figures") !== null)) { location.reload(); return; }
      if (!answer.ok) return;
      waits = 0;
      for (const part of $$("[data-live]")) {
        const other = next.getElementById(part.id);
        if (!other) { waits++; continue; }
        if (other.innerHTML === part.innerHTML) continue;
        if (busy(part) && !force) { waits++; continue; }
        part.innerHTML = other.innerHTML;
      }
      for (const [i, n] of $$("#menu a").entries()) {
        const other = $$("#menu a", next)[i];
        if (other && other.innerHTML !== n.innerHTML) n.innerHTML = other.innerHTML;
      }
      if ($("h1", next)) document.title = next.title;
      shownAt = Date.now();
      tell();
    } catch { say("Not live", "old"); } finally { loading = false; }
  }
  function tell() {
    if (paused) { say("Paused" + (waits ? ", changes wait" : ""), "paused"); return; }
    say(waits ? "Live, changes wait" : "Live");
  }
  if (pause && $("[data-live]") && "EventSource" in window) {
    pause.hidden = false;
    pause.addEventListener("click", () => {
      paused = !paused;
      pause.firstChild.textContent = paused ? "Go on " : "Pause ";
      tell();
      if (!paused) renew(true);
    });
    const source = new EventSource("/console/events");
    source.addEventListener("figures", (e) => {
      if ($("main.old-figures")) { location.reload(); return; }
      const changed = mark !== null && e.data !== mark;
      mark = e.data;
      if (shownAt === 0) { shownAt = Date.now(); tell(); }
      if (paused) { if (changed) { waits++; tell(); } return; }
      if (document.hidden) return;
      if (changed || waits || Date.now() - shownAt > 10000) renew(false);
    });
    source.addEventListener("away", () => { if (!$("main.old-figures")) location.reload(); });
    source.addEventListener("ended", () => location.reload());
    source.addEventListener("error", () => say("Not live", "old"));
    addEventListener("pagehide", () => source.close());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) renew(false); });
  }

  // ---- picking: how many are ticked ----

  const picks = $("#picks");
  if (picks) {
    const text = $("#picked"), plain = text.innerHTML;
    const show = () => {
      const n = $$("input[name=id]:checked", picks).length;
      for (const tr of $$("tr[data-row]", picks)) tr.classList.toggle("picked", $("input[name=id]", tr)?.checked);
      if (n) { text.textContent = n + " picked"; } else { text.innerHTML = plain; }
    };
    picks.addEventListener("change", show);
    show();
  }

  // ---- one open form at a time; Escape closes it ----

  document.addEventListener("toggle", (e) => {
    if (!e.target.matches?.("details.ask") || !e.target.open) return;
    for (const other of $$("details.ask[open]")) if (other !== e.target) other.open = false;
    $("input:not([type=hidden]), select, textarea", e.target)?.focus();
  }, true);

  // ---- keys ----

  const keys = [["/", "Search"], ["j k", "Next, previous"], ["Enter", "Open"], ["x", "Pick"], ["a", "Give to"], ["r", "Resolve"], ["p", "Pause live figures"],
    ["g n", "Now"], ["g c", "Causes"], ["g i", "Investigations"], ["g o", "Operations"], ["g b", "Outbox"], ["g t", "Tasks"], ["?", "These keys"], ["Esc", "Close"]];
  const places = { n: "/", c: "/causes", i: "/investigations", o: "/operations", b: "/outbox", t: "/tasks" };
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
      foot.append(off);
      d.append(h, list, foot);
      document.body.append(d);
    }
    d.showModal();
  }
  function step(by) {
    const rows = $$("tr[data-row]");
    if (!rows.length) return;
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
      case "/": { const q = $("#q"); if (q) { q.focus(); q.select(); } else location.assign("/investigations"); break; }
      case "j": step(1); break;
      case "k": step(-1); break;
      case "p": pause?.click(); break;
      case "x": { const box = $$("tr[data-row]")[at] && $("input[name=id]", $$("tr[data-row]")[at]); if (!box) return; box.checked = !box.checked; picks.dispatchEvent(new Event("change")); break; }
      case "a": case "r": { const s = $(`summary[data-key="${e.key}"]`); if (!s) return; s.parentElement.open = !s.parentElement.open; break; }
      default: return;
    }
    e.preventDefault();
  });
})();
