package kafkaauth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/postrider/postrider/internal/testenv/kafkatest"
)

// presigned is a request as AWS's documents on Signature Version 4 take it apart, written from them and not from the
// client that is tested.
type presigned struct {
	path, host, payload, region, service string
	query                                map[string]string // all but the signature
}

// signature calculates what a request must be signed with.
func (p presigned) signature(secret string) string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	payload := p.payload
	if payload == "" {
		payload = hash("")
	}
	var names, pairs []string
	for name := range p.query {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		pairs = append(pairs, encoded(name)+"="+encoded(p.query[name]))
	}
	canonical := strings.Join([]string{"GET", p.path, strings.Join(pairs, "&"), "host:" + p.host, "", "host", payload}, "\n")
	at := p.query["X-Amz-Date"]
	scope := []string{at[:8], p.region, p.service, "aws4_request"}
	key := []byte("AWS4" + secret)
	for _, text := range append(scope, strings.Join([]string{"AWS4-HMAC-SHA256", at, strings.Join(scope, "/"), hash(canonical)}, "\n")) {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		key = mac.Sum(nil)
	}
	return hex.EncodeToString(key)
}

// encoded is UriEncode of AWS's documents on Signature Version 4.
func encoded(text string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// What the broker below believes in is right: AWS has published this request and its signature ("Authenticating
// Requests: Using Query Parameters", Amazon S3 API Reference).
func TestSignatureOfAWSsExample(t *testing.T) {
	t.Parallel()
	p := presigned{path: "/test.txt", host: "examplebucket.s3.amazonaws.com", payload: "UNSIGNED-PAYLOAD", region: "us-east-1", service: "s3", query: map[string]string{
		"X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Credential": "AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request",
		"X-Amz-Date": "20130524T000000Z", "X-Amz-Expires": "86400", "X-Amz-SignedHeaders": "host"}}
	if got := p.signature("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"); got != "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404" {
		t.Error(got)
	}
}

// mskKeys are keys that a broker knows.
type mskKeys struct{ id, secret, token string }

// verify reports the mistake in the payload of a login by AWS_MSK_IAM, as a broker of MSK looks at it.
func verify(payload []byte, host, region string, known mskKeys, now time.Time) error {
	var said map[string]string
	if err := json.Unmarshal(payload, &said); err != nil {
		return err
	}
	for name, want := range map[string]string{"version": "2020_10_22", "host": host, "user-agent": "postrider"} {
		if said[name] != want {
			return fmt.Errorf("%s is %q, want %q", name, said[name], want)
		}
	}
	query := map[string]string{}
	for _, name := range []string{"Action", "X-Amz-Algorithm", "X-Amz-Credential", "X-Amz-Date", "X-Amz-Expires", "X-Amz-Security-Token", "X-Amz-SignedHeaders"} {
		if value, there := said[strings.ToLower(name)]; there {
			query[name] = value
		}
	}
	at, err := time.Parse("20060102T150405Z", query["X-Amz-Date"])
	if err != nil || now.Sub(at).Abs() > 5*time.Minute {
		return fmt.Errorf("x-amz-date is %q", query["X-Amz-Date"])
	}
	for name, want := range map[string]string{"Action": "kafka-cluster:Connect", "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-SignedHeaders": "host", "X-Amz-Expires": "300",
		"X-Amz-Security-Token": known.token, "X-Amz-Credential": strings.Join([]string{known.id, query["X-Amz-Date"][:8], region, "kafka-cluster", "aws4_request"}, "/")} {
		if query[name] != want {
			return fmt.Errorf("%s is not what it must be", name)
		}
	}
	p := presigned{path: "/", host: host, region: region, service: "kafka-cluster", query: query}
	if want := p.signature(known.secret); !hmac.Equal([]byte(said["x-amz-signature"]), []byte(want)) {
		return errors.New("the signature is another")
	}
	return nil
}

// mskBroker is one broker that takes logins by AWS_MSK_IAM alone, through TLS, and then says who it is.
type mskBroker struct {
	addr   *net.TCPAddr
	region string

	mu          sync.Mutex
	keys        mskKeys
	lifetime    time.Duration // of a login; 0 is without end
	connections int
	logins      int   // that were right
	why         error // what was wrong with the last that was not
}

func newMSKBroker(t *testing.T, authority *kafkatest.Authority, region string, keys mskKeys) *mskBroker {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{authority.Pair(t, "broker", time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	b := &mskBroker{addr: listener.Addr().(*net.TCPAddr), region: region, keys: keys}
	var serving sync.WaitGroup
	ctx := t.Context() // ends before clean-up begins
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				serving.Go(func() { <-ctx.Done(); conn.Close() })
				b.serve(conn)
				conn.Close()
			})
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	return b
}

// rotate makes other keys the right ones.
func (b *mskBroker) rotate(keys mskKeys) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys = keys
}

// seen returns how many logins were right, and what was wrong with the last that was not.
func (b *mskBroker) seen() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.logins, b.why
}

// serve answers until the other side goes, or does what no client may.
func (b *mskBroker) serve(conn net.Conn) {
	b.mu.Lock()
	b.connections++
	b.mu.Unlock()
	in := false // logged in
	for {
		var size [4]byte
		if _, err := io.ReadFull(conn, size[:]); err != nil {
			return
		}
		raw := make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(conn, raw); err != nil || len(raw) < 10 {
			return
		}
		// The header: key, version, number, the client's name and, where the version is flexible, no tags.
		request := kmsg.RequestForKey(int16(binary.BigEndian.Uint16(raw)))
		number, name := raw[4:8], int(binary.BigEndian.Uint16(raw[8:]))
		if request == nil || len(raw) < 10+name {
			return
		}
		request.SetVersion(int16(binary.BigEndian.Uint16(raw[2:])))
		body := raw[10+name:]
		if request.IsFlexible() && len(body) > 0 {
			body = body[1:]
		}
		if err := request.ReadFrom(body); err != nil {
			return
		}
		response := request.ResponseKind()
		switch r := request.(type) {
		case *kmsg.ApiVersionsRequest:
			versions := response.(*kmsg.ApiVersionsResponse)
			for _, of := range []kmsg.Request{kmsg.NewPtrApiVersionsRequest(), kmsg.NewPtrSASLHandshakeRequest(), kmsg.NewPtrSASLAuthenticateRequest(), kmsg.NewPtrMetadataRequest()} {
				key := kmsg.NewApiVersionsResponseApiKey()
				key.ApiKey, key.MaxVersion = of.Key(), of.MaxVersion()
				versions.ApiKeys = append(versions.ApiKeys, key)
			}
		case *kmsg.SASLHandshakeRequest:
			handshake := response.(*kmsg.SASLHandshakeResponse)
			handshake.SupportedMechanisms = []string{"AWS_MSK_IAM"}
			if r.Mechanism != "AWS_MSK_IAM" {
				handshake.ErrorCode = kerr.UnsupportedSaslMechanism.Code
			}
		case *kmsg.SASLAuthenticateRequest:
			in = b.login(r.SASLAuthBytes, response.(*kmsg.SASLAuthenticateResponse))
		case *kmsg.MetadataRequest:
			if !in {
				return
			}
			b.describe(response.(*kmsg.MetadataResponse))
		default:
			return
		}
		answer := append(make([]byte, 4, 256), number...)
		if response.IsFlexible() && response.Key() != kmsg.ApiVersions.Int16() {
			answer = append(answer, 0)
		}
		answer = response.AppendTo(answer)
		binary.BigEndian.PutUint32(answer, uint32(len(answer)-4))
		if _, err := conn.Write(answer); err != nil {
			return
		}
	}
}

// login answers as brokers of MSK do: the answer does not explain the refusal.
func (b *mskBroker) login(payload []byte, answer *kmsg.SASLAuthenticateResponse) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := verify(payload, "127.0.0.1", b.region, b.keys, time.Now()); err != nil {
		b.why = err
		answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
		answer.ErrorMessage = kmsg.StringPtr("[7e4b4b4c-9a0b-4d5c-8f7e-2d6f1c3a5b7d]: Access denied")
		return false
	}
	b.logins++
	answer.SessionLifetimeMillis = b.lifetime.Milliseconds()
	answer.SASLAuthBytes = []byte(`{"version":"2020_10_22","request-id":"7e4b4b4c-9a0b-4d5c-8f7e-2d6f1c3a5b7d"}`)
	return true
}

func (b *mskBroker) describe(answer *kmsg.MetadataResponse) {
	broker := kmsg.NewMetadataResponseBroker()
	broker.Host, broker.Port = b.addr.IP.String(), int32(b.addr.Port)
	answer.Brokers = append(answer.Brokers, broker)
}
