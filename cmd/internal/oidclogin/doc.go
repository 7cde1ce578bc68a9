// Package oidclogin signs people in at an OpenID provider: authorization code with PKCE, state and nonce. It knows no
// sessions, cookies or scopes of ours: it says where to send a browser, and who came back.
package oidclogin
