package doctor

import (
	"context"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/cmd/internal/config"
)

// checkEncryption says whether the connection to a database elsewhere may go without TLS: with sslmode=prefer, the default,
// a server without TLS, or a machine between that says so, gets the login and every event in the clear.
func checkEncryption(_ context.Context, p *patient) ([]result, error) {
	return judgeEncryption(p.Settings.Database.URL.Reveal()), nil
}

func judgeEncryption(url string) []result {
	cfg, err := pgconn.ParseConfig(url)
	if err != nil || url == "" {
		return skip("", "there is no address to look at")
	}
	var plain []string
	note := func(host string, encrypted bool) {
		if !encrypted && !onThisMachine(host) {
			plain = append(plain, host)
		}
	}
	note(cfg.Host, cfg.TLSConfig != nil)
	for _, f := range cfg.Fallbacks {
		note(f.Host, f.TLSConfig != nil)
	}
	if len(plain) > 0 {
		return warn("add sslmode=verify-full to database.url, and sslrootcert where the certificate is of an authority of your own",
			"the connection to %s may go without TLS: login and events could be read and changed on the way", plain[0])
	}
	return well("no connection to another machine goes without TLS")
}

// checkListening says whether the API is served without TLS beyond this machine: Postrider ends none itself.
func checkListening(_ context.Context, p *patient) ([]result, error) {
	return judgeListening(p.Settings.HTTP), nil
}

func judgeListening(c config.HTTP) []result {
	host, _, err := net.SplitHostPort(c.Address)
	if err != nil || onThisMachine(host) {
		return well("HTTP is served on this machine alone, %s", c.Address)
	}
	if !c.API {
		return well("health and metrics are served on %s, and no API", c.Address)
	}
	return warn("let a proxy or an ingress end TLS before it, and let no other machine reach the address; or listen on 127.0.0.1 (http.address)",
		"the API is served on %s without TLS: API keys and answers can be read on the way", c.Address)
}

// onThisMachine reports whether a host is a socket or a loopback address.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return strings.HasPrefix(host, "/") || strings.HasPrefix(host, "@") || host == "localhost" || ip != nil && ip.IsLoopback()
}
