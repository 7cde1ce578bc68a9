// Consumes orders and ships each once. An order that cannot be shipped is tried again from the retry topics of this
// consumer group, and becomes a dead letter in the end. The README lists the variables of the environment.
import { Kafka, logLevel, type Admin, type EachBatchPayload } from "kafkajs";
import pg from "pg";
import { failed, messageId, milliseconds, past, Refused, type Past, type Read } from "./retry.js";

const env = (name: string, without: string) => process.env[name] || without;
const topic = env("TOPIC", "orders");
const group = env("GROUP", "shop");
const deadLetters = env("DLQ_TOPIC", "postrider.consumer.dlq");
const delays = env("RETRY_DELAYS", "1s,10s,30s,2m").split(",");
const retryTopic = `${topic}.${group}.retry`; // read by this group alone: the desk redrives to it
const tiers = delays.map((d) => `${retryTopic}.${d}`);

const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL });
const kafka = new Kafka({ clientId: "shop", brokers: env("KAFKA_BROKERS", "localhost:9092").split(","), logLevel: logLevel.WARN });
const producer = kafka.producer();
const consumer = kafka.consumer({ groupId: group });

/** Ships an order, in the transaction in which the inbox has noted it. */
async function ship(tx: pg.PoolClient, value: Buffer | null): Promise<void> {
  let article: unknown;
  try {
    article = JSON.parse(value?.toString() ?? "").article;
  } catch {
    // The message stays what it is; a further attempt would find the same.
  }
  if (typeof article !== "string") {
    throw new Refused("NO_ARTICLE", "the order names no article", true);
  }
  const { rowCount } = await tx.query("update shop_article set shipped = shipped + 1 where article = $1", [article]);
  if (rowCount === 0) {
    throw new Refused("UNKNOWN_ARTICLE", `article ${JSON.stringify(article)} is not known`, false);
  }
}

/** Handles a message once: a copy finds the row of the inbox, and nothing is done. */
async function handle(r: Read, p: Past): Promise<void> {
  const tx = await pool.connect();
  try {
    await tx.query("begin");
    const noted = await tx.query("insert into inbox_message (consumer_group, message_id) values ($1, $2) on conflict do nothing", [group, messageId(r, p)]);
    if (noted.rowCount === 1) {
      await ship(tx, r.value);
    }
    await tx.query("commit");
    tx.release();
  } catch (e) {
    await tx.query("rollback").catch(() => undefined); // the connection may be gone
    tx.release(!(e instanceof Refused));
    throw e;
  }
}

/** Handles a message, or hands it on to a retry topic or to the dead-letter topic. If neither can be done it throws. */
async function handleOrHandOn(r: Read): Promise<void> {
  const p = past(r, group);
  try {
    await handle(r, p);
  } catch (e) {
    if (!(e instanceof Refused)) {
      throw e;
    }
    const delay = e.permanent ? undefined : delays[p.failed];
    const due = delay === undefined ? undefined : new Date(Date.now() + milliseconds(delay));
    const to = due === undefined ? deadLetters : tiers[p.failed]!;
    console.error(`${r.topic}/${r.partition}/${r.offset}: ${e.code}: ${e.message}; to ${to}`);
    await producer.send({ topic: to, acks: -1, messages: [{ key: r.key, value: r.value, headers: failed(r, p, group, e, retryTopic, due) }] });
  }
}

async function eachBatch({ batch, resolveOffset, heartbeat, commitOffsetsIfNecessary, uncommittedOffsets, isRunning, isStale, pause }: EachBatchPayload): Promise<void> {
  for (const m of batch.messages) {
    if (!isRunning() || isStale()) {
      return;
    }
    const r: Read = { topic: batch.topic, partition: batch.partition, offset: m.offset, timestamp: Number(m.timestamp), key: m.key, value: m.value, headers: m.headers ?? {} };
    const early = past(r, group).due - Date.now();
    if (early > 0) {
      // Its partition waits, and no other. The message is read again, because its offset is not resolved.
      setTimeout(pause(), Math.min(early, 60_000)).unref();
      return;
    }
    await handleOrHandOn(r);
    resolveOffset(m.offset);
    await commitOffsetsIfNecessary(uncommittedOffsets());
    await heartbeat();
  }
}

/** Creates the retry topics that are missing, with as many partitions as the topic has. */
async function createTopics(admin: Admin): Promise<void> {
  const there = await admin.listTopics();
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  const numPartitions = topics[0]!.partitions.length;
  const missing = [retryTopic, ...tiers].filter((t) => !there.includes(t));
  if (missing.length > 0) {
    await admin.createTopics({ topics: missing.map((t) => ({ topic: t, numPartitions })), waitForLeaders: true });
  }
}

await pool.query("create table if not exists shop_article (article text primary key, shipped integer not null default 0)");
const admin = kafka.admin();
await admin.connect();
await createTopics(admin);
await admin.disconnect();
await producer.connect();
await consumer.connect();
await consumer.subscribe({ topics: [topic, retryTopic, ...tiers], fromBeginning: true });
for (const signal of ["SIGINT", "SIGTERM"]) {
  process.once(signal, async () => {
    await consumer.disconnect(); // after the message in hand
    await producer.disconnect();
    await pool.end();
  });
}
await consumer.run({ eachBatch, eachBatchAutoResolve: false });
