package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// hostName accepts what resolvers accept, underscores of container names included.
var hostName = regexp.MustCompile(`^[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?(\.[a-zA-Z0-9_]([a-zA-Z0-9_-]*[a-zA-Z0-9_])?)*\.?$`)

// checkBroker accepts host:port with a name, an IPv4 address, or an IPv6 address in brackets.
func checkBroker(text string) error {
	if scheme, _, found := strings.Cut(text, "://"); found {
		return fmt.Errorf("each broker must be host:port, without %s://", strings.Map(printable, scheme))
	}
	host, _, err := splitAddress(text, 1)
	if err != nil {
		return fmt.Errorf("each broker must be host:port: %w", err)
	}
	if host == "" {
		return errors.New("each broker must be host:port: the host is missing")
	}
	return nil
}

// checkOrigin accepts what browsers send as Origin: scheme, host and, where it is not the usual one, port.
func checkOrigin(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Scheme+"://"+u.Host != text || strings.ToLower(text) != text {
		return errors.New("each origin must be as browsers send it: https://agents.example.com, in small letters, without a path, * or /")
	}
	return nil
}

// splitAddress takes host:port apart. lowest is the least port number allowed. The error does
// not repeat the address.
func splitAddress(text string, lowest uint64) (host, port string, err error) {
	host, port, err = net.SplitHostPort(text)
	var wrong *net.AddrError
	if errors.As(err, &wrong) {
		return "", "", fmt.Errorf("%s (write host:port, and [host]:port for IPv6)", wrong.Err)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n < lowest {
		return "", "", fmt.Errorf("the port must be a number from %d to 65535", lowest)
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !hostName.MatchString(host) {
		return "", "", errors.New("the host is neither a name nor an IP address")
	}
	return host, port, nil
}

func printable(r rune) rune {
	if strconv.IsPrint(r) {
		return r
	}
	return '?'
}
