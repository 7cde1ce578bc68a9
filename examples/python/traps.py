"""Tries what looks right with psycopg and is not, beside what is, as a login with postrider_writer.

Prints the SQLSTATE of each try as JSON, or "ok". Nothing is kept.
"""

import json
import os

import psycopg
from psycopg.types.json import Json, Jsonb

PUBLISH = "select postrider.outbox_publish('shop.traps', 'k', %s)"
INSERT = "insert into postrider.outbox_event (topic, key, payload) values ('shop.traps', %s, %s)"

TRIES = {
    "Jsonb": (PUBLISH, [Jsonb({"article": "door"})]),
    "JSON text": (PUBLISH, [json.dumps([1, 2])]),
    "Json": (PUBLISH, [Json({})]),
    "Json with %s::jsonb": (PUBLISH.replace("%s", "%s::jsonb"), [Json({})]),
    "insert": (INSERT, [b"k", b"{}"]),
    "insert with returning": (INSERT + " returning event_id", [b"k", b"{}"]),
    "insert with a text as the key": (INSERT, ["DOMAIN\\user", b"{}"]),
}

said = {}
with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
    for name, (sql, values) in TRIES.items():
        try:
            connection.execute(sql, values)
            said[name] = "ok"
        except psycopg.Error as error:
            said[name] = error.sqlstate or str(error)
        connection.rollback()
print(json.dumps(said))
