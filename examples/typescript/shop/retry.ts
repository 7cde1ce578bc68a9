// What a consumer does with the headers of Postrider: it knows a message by one id, goes on with the attempts of a message
// in a retry topic, and writes messages that failed to retry topics and to the dead-letter topic. The rules are in
// docs/reading.md, "Retry topics in another language".
import { createHash } from "node:crypto";
import type { IHeaders } from "kafkajs";

/** A record as it was read. */
export interface Read {
  topic: string;
  partition: number;
  offset: string;
  timestamp: number; // milliseconds since 1970
  key: Buffer | null;
  value: Buffer | null;
  headers: IHeaders;
}

/** Where a message was read first, before any retry topic. */
export interface Place {
  topic: string;
  partition: number;
  offset: string;
  timestamp: number;
  type?: string; // CreateTime or LogAppendTime, where that is known
}

/** What earlier attempts left in the headers. */
export interface Past {
  failed: number;
  firstFailedAt: string | undefined;
  due: number; // milliseconds since 1970; 0 is at once
  origin: Place;
}

/** An error that is about the message. Any other error is about the database or Kafka, and spends no attempt. */
export class Refused extends Error {
  constructor(readonly code: string, message: string, readonly permanent: boolean) {
    super(message);
  }
}

// These headers begin as ours do, and belong to the message all the same.
const messagesOwn = ["postrider-event-id", "postrider-hops", "postrider-redrive-of", "postrider-redrive-for", "postrider-source"];

/** The first value of a header, as text; "" where there is none. */
function text(headers: IHeaders, name: string): string {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value)?.toString() ?? "";
}

/** What is known of earlier attempts of this group. The notes of another group count for nothing. */
export function past(r: Read, group: string): Past {
  const get = (name: string) => text(r.headers, "postrider-" + name);
  const at = (s: string) => Date.parse(s) || 0;
  if (get("consumer-group") === group && /^\d+$/.test(get("attempts"))) {
    const whole = get("origin-topic") !== "" && /^\d+$/.test(get("origin-partition")) && /^\d+$/.test(get("origin-offset"));
    const origin = whole
      ? { topic: get("origin-topic"), partition: Number(get("origin-partition")), offset: get("origin-offset"), timestamp: at(get("origin-timestamp")), type: get("origin-timestamp-type") }
      : r;
    return { failed: Number(get("attempts")), firstFailedAt: get("first-failed-at") || undefined, due: at(get("retry-due")), origin };
  }
  // A message that was redriven to this group says where it was read first.
  const m = /^([^/]+)\/(\d+)\/(\d+)(?:@(\d+))?(?:#(.*))?$/.exec(text(r.headers, "replay_origin"));
  const origin = m !== null && (m[5] === undefined || m[5] === group) ? { topic: m[1]!, partition: Number(m[2]), offset: m[3]!, timestamp: Number(m[4] ?? 0) } : r;
  return { failed: 0, firstFailedAt: undefined, due: 0, origin };
}

/** The id by which the inbox knows a message, however often it is sent. */
export function messageId(r: Read, p: Past): string {
  const o = p.origin;
  const event = text(r.headers, "postrider-event-id");
  const record = `record:${o.topic}/${o.partition}/${o.offset}` + (o.timestamp > 0 ? `@${o.timestamp}` : "");
  const of = text(r.headers, "postrider-redrive-of");
  const valid = /^event:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(of) || (/^record:./s.test(of) && Buffer.byteLength(of) <= 512);
  const id = valid ? of : event === "" ? record : "event:" + event;
  return Buffer.byteLength(id) > 200 ? "sha256:" + createHash("sha256").update(id).digest("hex") : id;
}

/** The headers of a message that failed once more: those of a retry topic if it is due again, else those of a dead letter. */
export function failed(r: Read, p: Past, group: string, error: Refused, retryTopic: string, due: Date | undefined): IHeaders {
  const headers: IHeaders = {};
  for (const [name, value] of Object.entries(r.headers)) {
    if (!name.startsWith("postrider-") || messagesOwn.includes(name)) {
      headers[name] = value;
    }
  }
  const set = (name: string, value: string | number) => (headers["postrider-" + name] = String(value));
  const now = new Date().toISOString();
  set("consumer-group", group);
  set("origin-topic", p.origin.topic);
  set("origin-partition", p.origin.partition);
  set("origin-offset", p.origin.offset);
  if (p.origin.timestamp > 0) {
    set("origin-timestamp", new Date(p.origin.timestamp).toISOString());
    set("origin-timestamp-type", p.origin.type || "CreateTime");
  }
  set("attempts", p.failed + 1);
  set("first-failed-at", p.firstFailedAt ?? now);
  set("last-failed-at", now);
  set("error-class", error.permanent ? "permanent" : "record");
  set("error-code", error.code);
  set("error-message", error.message.slice(0, 512));
  if (due !== undefined) {
    set("retry-due", due.toISOString());
    return headers;
  }
  set("letter-version", 1);
  set("retry-topic", retryTopic);
  if (r.topic !== p.origin.topic) {
    set("last-topic", r.topic);
    set("last-partition", r.partition);
    set("last-offset", r.offset);
  }
  return headers;
}

/** A delay as the name of a retry topic has it, such as 500ms, 10s, 2m or 1h, in milliseconds. */
export function milliseconds(delay: string): number {
  const m = /^(\d+)(ms|s|m|h)$/.exec(delay);
  if (m === null) {
    throw new Error(`RETRY_DELAYS has ${delay}: write delays as 500ms, 10s, 2m or 1h`);
  }
  return Number(m[1]) * { ms: 1, s: 1000, m: 60_000, h: 3_600_000 }[m[2] as "ms" | "s" | "m" | "h"];
}
