// Tries what looks right with pg and is not, beside what is, as a login with postrider_writer. Prints the SQLSTATE of
// each try as JSON, or "ok". Nothing is kept.
import pg from "pg";

const publish = "select postrider.outbox_publish($1, $2, $3)";
const insert = "insert into postrider.outbox_event (topic, key, payload) values ($1, $2, $3)";
const payload = Buffer.from("{}");

const tries: Record<string, [sql: string, values: unknown[]]> = {
  "an object as JSON": [publish, ["shop.traps", "k", { article: "door" }]],
  "an array as JSON": [publish, ["shop.traps", "k", [1, 2]]],
  "an array as JSON, by JSON.stringify": [publish, ["shop.traps", "k", JSON.stringify([1, 2])]],
  "a string as JSON": [publish, ["shop.traps", "k", "door"]],
  "a string as JSON, by JSON.stringify": [publish, ["shop.traps", "k", JSON.stringify("door")]],
  "insert": [insert, ["shop.traps", Buffer.from("k"), payload]],
  "insert with returning": [insert + " returning event_id", ["shop.traps", Buffer.from("k"), payload]],
  "insert with a text as the key": [insert, ["shop.traps", "DOMAIN\\user", payload]],
};

const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
const said: Record<string, string> = {};
for (const [name, [sql, values]] of Object.entries(tries)) {
  await client.query("begin");
  try {
    await client.query(sql, values);
    said[name] = "ok";
  } catch (e) {
    said[name] = e instanceof pg.DatabaseError ? (e.code ?? "") : String(e);
  }
  await client.query("rollback");
}
await client.end();
console.log(JSON.stringify(said));
