"""Reads topics that Postrider writes and prints each record as a line of JSON.

The headers are what matters: postrider-event-id tells copies apart, ce_* are the CloudEvents attributes of
lifecycle events, and a dead letter says in its headers what went wrong. See README.md.
"""

import argparse
import base64
import json
import os
import sys
import time

from confluent_kafka import Consumer, KafkaException

EVENT_ID = "postrider-event-id"
LETTER_VERSION = "postrider-letter-version"
OURS = "postrider-"
CLOUD_EVENT = "ce_"


def text(value):
    """Bytes as text where they are UTF-8, else as base64. Kafka's null is None and differs from empty."""
    if value is None:
        return None
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode("ascii")}


def describe(message):
    """What there is to know of a record."""
    # Names may repeat, so headers are pairs. Headers of Postrider and of CloudEvents are there once.
    headers = [[name, text(value)] for name, value in message.headers() or []]
    once = dict(headers)
    event = {name.removeprefix(CLOUD_EVENT): value for name, value in once.items() if name.startswith(CLOUD_EVENT)}
    letter = {name.removeprefix(OURS): value for name, value in once.items() if name.startswith(OURS)}
    return {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "key": text(message.key()),
        "value": text(message.value()),
        "event_id": once.get(EVENT_ID),
        "cloud_event": event or None,
        "dead_letter": letter if LETTER_VERSION in once else None,
        "headers": headers,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topics", nargs="+", metavar="TOPIC")
    parser.add_argument("--group", default="postrider-python-example", help="consumer group (default: %(default)s)")
    parser.add_argument("--count", type=int, help="end after so many records")
    parser.add_argument("--timeout", type=float, default=60, help="with --count: give up after so many seconds (default: %(default)s)")
    args = parser.parse_args()

    consumer = Consumer({
        "bootstrap.servers": os.environ.get("KAFKA_BROKERS", "localhost:9092"),
        "group.id": args.group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,  # an offset is committed when its record is handled
    })
    consumer.subscribe(args.topics)
    handled, began = 0, time.monotonic()
    try:
        while args.count is None or handled < args.count:
            if args.count is not None and time.monotonic() - began > args.timeout:
                sys.exit(f"read.py: {handled} records after {args.timeout:g} s, want {args.count}")
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error():
                if message.error().fatal():
                    raise KafkaException(message.error())
                print(f"read.py: {message.error()}", file=sys.stderr)  # the client tries again by itself
                continue
            print(json.dumps(describe(message), ensure_ascii=False), flush=True)
            handled += 1
            consumer.commit(message=message, asynchronous=False)
    except KeyboardInterrupt:
        pass
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
