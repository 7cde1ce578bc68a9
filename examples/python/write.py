"""Places orders and writes an event about each, in one transaction. Prints the event's id as JSON.

No library of Postrider is needed: the outbox is a function of the database. See README.md.
"""

import argparse
import json
import os
import sys

import psycopg
from psycopg.types.json import Jsonb

SCHEMA = """
create table if not exists shop_order (
    order_id text primary key,
    details  jsonb not null
)
"""


def place(connection, topic, order_id, details, headers, fail):
    """Places one order. Either the row and its event are there afterwards, or neither is."""
    with connection.transaction():
        connection.execute("insert into shop_order (order_id, details) values (%s, %s)", (order_id, Jsonb(details)))
        row = connection.execute(
            "select postrider.outbox_publish(%s, %s, %s, headers => %s)",
            (topic, order_id, Jsonb(details), Jsonb(headers)),
        ).fetchone()
        if fail:
            raise RuntimeError("told to fail after both were written")
    return str(row[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("topic")
    parser.add_argument("order_id")
    parser.add_argument("details", help="JSON; - reads it from standard input")
    parser.add_argument("--header", action="append", default=[], metavar="NAME=VALUE", help="may be repeated, also with the same name")
    parser.add_argument("--fail", action="store_true", help="fail before the commit: nothing is sent")
    args = parser.parse_args()
    details = json.load(sys.stdin) if args.details == "-" else json.loads(args.details)
    headers = [header.partition("=")[::2] for header in args.header]  # pairs, because names may repeat

    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        connection.execute(SCHEMA)
        event_id = place(connection, args.topic, args.order_id, details, headers, args.fail)
    print(json.dumps({"event_id": event_id, "order_id": args.order_id}))


if __name__ == "__main__":
    main()
