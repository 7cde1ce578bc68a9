package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// A token is pr_<id>_<secret><checksum>: a prefix that scanners for leaked secrets can look for, the id under
// which the key is stored, 256 random bits, and a CRC-32, which tells a mistyped key from a wrong one without
// the database. Links to the web console and its sessions have other prefixes.
const (
	tokenPrefix    = "pr_"
	linkPrefix     = "prl_"
	sessionPrefix  = "prs_"
	idBytes        = 10 // 16 letters
	secretBytes    = 32
	secretLetters  = 43
	checksumDigits = 8
)

var idEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// errToken says nothing more, because it may be shown to anybody.
var errToken = errors.New("this is not an API key: pr_, 16 letters and digits, an underscore and 51 more")

// secretHash is the only form in which a secret is kept.
type secretHash = [sha256.Size]byte

// newToken returns a new token, the id in it and the hash of its secret.
func newToken(prefix string) (token, id string, hash secretHash) {
	var random [idBytes + secretBytes]byte
	_, _ = rand.Read(random[:]) // never fails; see its documentation
	id = idEncoding.EncodeToString(random[:idBytes])
	secret := base64.RawURLEncoding.EncodeToString(random[idBytes:])
	body := prefix + id + "_" + secret
	return body + checksum(body), id, sha256.Sum256([]byte(secret))
}

// parseToken returns the id and the hash of the secret.
func parseToken(prefix, token string) (id string, hash secretHash, err error) {
	idLetters := idEncoding.EncodedLen(idBytes)
	if len(token) != len(prefix)+idLetters+1+secretLetters+checksumDigits || !strings.HasPrefix(token, prefix) {
		return "", hash, errToken
	}
	body, sum := token[:len(token)-checksumDigits], token[len(token)-checksumDigits:]
	if checksum(body) != sum {
		return "", hash, errToken
	}
	id, secret := body[len(prefix):len(prefix)+idLetters], body[len(prefix)+idLetters+1:]
	return id, sha256.Sum256([]byte(secret)), nil
}

func checksum(s string) string { return fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(s))) }
