// An OpenID provider for tests: node provider.mjs, with {"port", "clients", "accounts", "inToken"} on standard input. Accounts
// have their claims by name; every password is right. inToken puts the claims into the ID token; otherwise the userinfo
// endpoint alone has them. It writes its issuer when it listens, and ends when standard input ends.
import { createServer } from "node:http";
import Provider from "oidc-provider";

process.stdin.setEncoding("utf8");
let text = "";
let begun = false;
for await (const part of process.stdin) {
  text += part;
  const at = text.indexOf("\n");
  if (at >= 0 && !begun) {
    begun = true;
    start(JSON.parse(text.slice(0, at)));
  }
}
process.exit(0);

function start({ port, clients, accounts, inToken }) {
  const server = createServer();
  server.listen(port, "localhost", () => {
    const issuer = `http://localhost:${server.address().port}`;
    const provider = new Provider(issuer, {
      clients,
      claims: { openid: ["sub"], email: ["email", "email_verified"], groups: ["groups"] },
      conformIdTokenClaims: !inToken,
      cookies: { keys: ["for tests"] },
      findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...accounts[id] }) }),
    });
    server.on("request", provider.callback());
    console.log(issuer);
  });
}
