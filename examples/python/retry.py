"""What a consumer does with the headers of Postrider.

It knows a message by one id, goes on with the attempts of a message in a retry topic, and writes messages that failed to
retry topics and to the dead-letter topic. The rules are in docs/reading.md, "Retry topics in another language".
"""

import dataclasses
import hashlib
import re
from datetime import datetime, timedelta, timezone

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME

# These headers begin as ours do, and belong to the message all the same.
MESSAGES_OWN = {"postrider-event-id", "postrider-hops", "postrider-redrive-of", "postrider-redrive-for", "postrider-source"}

NUMBER = re.compile(r"[0-9]{1,18}")
EVENT = re.compile(r"event:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
REPLAY_ORIGIN = re.compile(r"([^/]+)/(\d+)/(\d+)(?:@(\d+))?(?:#(.*))?", re.DOTALL)
UNITS = {"ms": timedelta(milliseconds=1), "s": timedelta(seconds=1), "m": timedelta(minutes=1), "h": timedelta(hours=1)}


class Refused(Exception):
    """An error that is about the message. Any other error is about the database or Kafka, and spends no attempt."""

    def __init__(self, code, message, permanent=False):
        super().__init__(message)
        self.code, self.permanent = code, permanent


@dataclasses.dataclass(frozen=True)
class Place:
    """Where a message was read first, before any retry topic. The timestamp is in milliseconds since 1970; 0 for none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    type: str = "CreateTime"


@dataclasses.dataclass(frozen=True)
class Past:
    """What earlier attempts left in the headers. A message that is due at None is tried at once."""

    failed: int
    first_failed_at: str
    due: datetime | None
    origin: Place


def text(message, name):
    """The first value of a header, as text; empty where there is none."""
    for key, value in message.headers() or []:
        if key == name:
            return (value or b"").decode("utf-8", "replace")
    return ""


def instant(value):
    """A time of a header. Python has no nanoseconds, so they are cut."""
    m = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d+))?Z", value)
    return datetime.fromisoformat(m[1] + "+00:00") + timedelta(microseconds=int((m[2] or "").ljust(6, "0")[:6])) if m else None


def past(message, group):
    """What is known of earlier attempts of this group. The notes of another group count for nothing."""
    attempts = text(message, "postrider-attempts")
    kind, at = message.timestamp()
    here = Place(message.topic(), message.partition(), message.offset(), at, "LogAppendTime" if kind == TIMESTAMP_LOG_APPEND_TIME else "CreateTime")
    if text(message, "postrider-consumer-group") == group and attempts.isdecimal():
        read = instant(text(message, "postrider-origin-timestamp"))
        topic, partition, offset = (text(message, "postrider-origin-" + part) for part in ("topic", "partition", "offset"))
        origin = here
        if topic and NUMBER.fullmatch(partition) and NUMBER.fullmatch(offset):
            at = round(read.timestamp() * 1000) if read else 0
            origin = Place(topic, int(partition), int(offset), at, text(message, "postrider-origin-timestamp-type") or "CreateTime")
        return Past(int(attempts), text(message, "postrider-first-failed-at"), instant(text(message, "postrider-retry-due")), origin)
    origin = here
    # A message that was redriven to this group says where it was read first.
    replay = REPLAY_ORIGIN.fullmatch(text(message, "replay_origin"))
    if replay and replay[5] in (None, group):
        origin = Place(replay[1], int(replay[2]), int(replay[3]), int(replay[4] or 0))
    return Past(0, "", None, origin)


def message_id(message, p):
    """The id by which the inbox knows a message, however often it is sent."""
    o = p.origin
    event = text(message, "postrider-event-id")
    record = f"record:{o.topic}/{o.partition}/{o.offset}" + (f"@{o.timestamp}" if o.timestamp > 0 else "")
    of = text(message, "postrider-redrive-of")
    if not EVENT.fullmatch(of) and not (of.startswith("record:") and 7 < len(of.encode()) <= 512):
        of = f"event:{event}" if event else record
    return of if len(of.encode()) <= 200 else "sha256:" + hashlib.sha256(of.encode()).hexdigest()


def failed(message, p, group, error, retry_topic, due):
    """The headers of a message that failed once more: those of a retry topic if it is due again, else those of a dead letter."""
    headers = [(name, value) for name, value in message.headers() or [] if not name.startswith("postrider-") or name in MESSAGES_OWN]

    def put(name, value):
        headers.append(("postrider-" + name, str(value).encode()))

    now = rfc3339(datetime.now(timezone.utc))
    put("consumer-group", group)
    put("origin-topic", p.origin.topic)
    put("origin-partition", p.origin.partition)
    put("origin-offset", p.origin.offset)
    if p.origin.timestamp > 0:
        put("origin-timestamp", rfc3339(datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=p.origin.timestamp)))
        put("origin-timestamp-type", p.origin.type)
    put("attempts", p.failed + 1)
    put("first-failed-at", p.first_failed_at or now)
    put("last-failed-at", now)
    put("error-class", "permanent" if error.permanent else "record")
    put("error-code", error.code)
    put("error-message", str(error)[:512])
    if due:
        put("retry-due", rfc3339(due))
        return headers
    put("letter-version", 1)
    put("retry-topic", retry_topic)
    if message.topic() != p.origin.topic:
        put("last-topic", message.topic())
        put("last-partition", message.partition())
        put("last-offset", message.offset())
    return headers


def rfc3339(at):
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def delay(name):
    """A delay as the name of a retry topic has it: 500ms, 10s, 2m or 1h."""
    m = re.fullmatch(r"(\d+)(ms|s|m|h)", name)
    if not m:
        raise ValueError(f"RETRY_DELAYS has {name}: write delays as 500ms, 10s, 2m or 1h")
    return int(m[1]) * UNITS[m[2]]
