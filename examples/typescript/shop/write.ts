// Places orders and writes an event about each, in one transaction. Prints the event's id as JSON.
//
//   node out/write.js TOPIC ORDER_ID DETAILS [--header NAME=VALUE]... [--fail]
//
// No library of Postrider is needed: the outbox is a function of the database.
import { parseArgs } from "node:util";
import pg from "pg";

const schema = `create table if not exists shop_order (order_id text primary key, details jsonb not null)`;

/** Places one order. Either the row and its event are there afterwards, or neither is. */
async function place(client: pg.Client, topic: string, orderId: string, details: unknown, headers: string[][], fail: boolean): Promise<string> {
  await client.query("begin");
  try {
    // JSON is given as text: pg writes an array as an array of PostgreSQL, which is no jsonb.
    await client.query("insert into shop_order (order_id, details) values ($1, $2)", [orderId, JSON.stringify(details)]);
    const { rows } = await client.query<{ event_id: string }>(
      "select postrider.outbox_publish($1, $2, $3, headers => $4) as event_id",
      [topic, orderId, JSON.stringify(details), JSON.stringify(headers)],
    );
    if (fail) {
      throw new Error("told to fail after both were written");
    }
    await client.query("commit");
    return rows[0]!.event_id;
  } catch (e) {
    await client.query("rollback");
    throw e;
  }
}

const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: { header: { type: "string", multiple: true, default: [] }, fail: { type: "boolean", default: false } },
});
const [topic, orderId, details] = positionals;
if (topic === undefined || orderId === undefined || details === undefined) {
  throw new Error("usage: write.js TOPIC ORDER_ID DETAILS [--header NAME=VALUE]... [--fail]");
}
// Pairs, because names may repeat.
const headers = values.header.map((h) => [h.slice(0, h.indexOf("=")), h.slice(h.indexOf("=") + 1)]);
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();
try {
  await client.query(schema);
  const eventId = await place(client, topic, orderId, JSON.parse(details), headers, values.fail);
  console.log(JSON.stringify({ event_id: eventId, order_id: orderId }));
} finally {
  await client.end();
}
