"""Consumes orders and ships each once.

An order that cannot be shipped is tried again from the retry topics of this consumer group, and becomes a dead letter in the
end. The README lists the variables of the environment. If the database or Kafka is away the program ends, and nothing is
lost: start it again.
"""

import json
import os
import signal
import sys
from datetime import datetime, timezone

import psycopg
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import retry

TOPIC = os.environ.get("TOPIC", "orders")
GROUP = os.environ.get("GROUP", "shop")
DEAD_LETTERS = os.environ.get("DLQ_TOPIC", "postrider.consumer.dlq")
DELAYS = os.environ.get("RETRY_DELAYS", "1s,10s,30s,2m").split(",")
RETRY_TOPIC = f"{TOPIC}.{GROUP}.retry"  # read by this group alone: the desk redrives to it
TIERS = [f"{RETRY_TOPIC}.{delay}" for delay in DELAYS]
KAFKA = {"bootstrap.servers": os.environ.get("KAFKA_BROKERS", "localhost:9092")}


def ship(connection, value):
    """Ships an order, in the transaction in which the inbox has noted it."""
    try:
        article = json.loads(value or b"")["article"]
    except (ValueError, KeyError, TypeError):
        article = None
    if not isinstance(article, str):
        raise retry.Refused("NO_ARTICLE", "the order names no article", permanent=True)
    if connection.execute("update shop_article set shipped = shipped + 1 where article = %s", (article,)).rowcount == 0:
        raise retry.Refused("UNKNOWN_ARTICLE", f'article "{article}" is not known')


def handle(connection, message, past):
    """Handles a message once: a copy finds the row of the inbox, and nothing is done."""
    with connection.transaction():
        noted = connection.execute(
            "insert into inbox_message (consumer_group, message_id) values (%s, %s) on conflict do nothing",
            (GROUP, retry.message_id(message, past)),
        )
        if noted.rowcount == 1:
            ship(connection, message.value())


def hand_on(producer, message, past, error):
    """Writes a message that failed to a retry topic or to the dead-letter topic, and returns when the brokers have it."""
    again = not error.permanent and past.failed < len(DELAYS)
    due = datetime.now(timezone.utc) + retry.delay(DELAYS[past.failed]) if again else None
    to = TIERS[past.failed] if again else DEAD_LETTERS
    print(f"{message.topic()}/{message.partition()}/{message.offset()}: {error.code}: {error}; to {to}", file=sys.stderr)
    outcome = []
    producer.produce(
        to, value=message.value(), key=message.key(), headers=retry.failed(message, past, GROUP, error, RETRY_TOPIC, due),
        on_delivery=lambda err, _: outcome.append(err),
    )
    if producer.flush(30) or outcome != [None]:
        raise RuntimeError(f"{to} has not taken the message: {outcome}")


def create_topics():
    """Creates the retry topics that are missing, with as many partitions as the topic has."""
    admin = AdminClient(KAFKA)
    there = admin.list_topics(timeout=30).topics
    missing = [NewTopic(t, num_partitions=len(there[TOPIC].partitions)) for t in [RETRY_TOPIC, *TIERS] if t not in there]
    for future in admin.create_topics(missing).values() if missing else []:
        future.result()


def main():
    stopping = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopping.append(True))
    create_topics()
    producer = Producer({**KAFKA, "enable.idempotence": True})
    consumer = Consumer({**KAFKA, "group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    waiting = {}  # when the next message of a partition is due
    consumer.subscribe([TOPIC, RETRY_TOPIC, *TIERS], on_revoke=lambda _, gone: [waiting.pop((p.topic, p.partition), None) for p in gone])
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute("create table if not exists shop_article (article text primary key, shipped integer not null default 0)")
        while not stopping:
            for place, due in list(waiting.items()):
                if due <= datetime.now(timezone.utc):
                    consumer.resume([TopicPartition(*place)])
                    del waiting[place]
            message = consumer.poll(0.1)
            if message is None:
                continue
            if message.error():
                if message.error().code() in (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT):
                    continue  # the client tries again by itself
                raise KafkaException(message.error())
            past = retry.past(message, GROUP)
            if past.due and past.due > datetime.now(timezone.utc):
                # Its partition waits, and no other. The message is read again when it is due.
                here = TopicPartition(message.topic(), message.partition(), message.offset())
                consumer.pause([here])
                consumer.seek(here)
                waiting[(here.topic, here.partition)] = past.due
                continue
            try:
                handle(connection, message, past)
            except retry.Refused as error:
                hand_on(producer, message, past, error)
            consumer.commit(message=message, asynchronous=False)
    consumer.close()


if __name__ == "__main__":
    main()
