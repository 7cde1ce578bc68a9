package kafkaauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/smithy-go/logging"

	"github.com/postrider/postrider/cmd/internal/config"
)

const (
	// keysTimeout bounds one question for keys, with its answer. There is no second attempt: the client of Kafka connects
	// again, and asks again then.
	keysTimeout = 5 * time.Second
	// keysSpare is what keys must live at least, so that they do not end between here and the broker.
	keysSpare = 30 * time.Second
)

// keySource returns the keys of AWS that count now. Its error says what failed, and has no secret.
type keySource func(context.Context) (sdk.Credentials, error)

// findKeys chooses where the keys of AWS come from, and looks at the files and variables on this machine. It connects to
// nothing. The first of these counts, and no other is tried when it fails:
//
//   - kafka.sasl_aws_credentials_file, read again each time;
//   - kafka.sasl_aws_access_key_id with its secret and token;
//   - the sources that AWS's SDK knows, in its order: variables, the role of a service account (IRSA), profiles, the endpoint
//     of a container (ECS, EKS Pod Identity), the metadata of an EC2 instance.
func findKeys(c config.Kafka) (keySource, error) {
	switch {
	case c.SASLAWSCredentialsFile != "":
		source := func(ctx context.Context) (sdk.Credentials, error) { return fileKeys(ctx, c.SASLAWSCredentialsFile) }
		_, err := source(context.Background())
		return source, err
	case c.SASLAWSAccessKeyID != "":
		k := sdk.Credentials{AccessKeyID: c.SASLAWSAccessKeyID, SecretAccessKey: c.SASLAWSSecretAccessKey.Reveal(), SessionToken: c.SASLAWSSessionToken.Reveal()}
		if err := checkKeys(k); err != nil {
			return nil, fmt.Errorf("the keys of kafka.sasl_aws_access_key_id cannot be used: %w", err)
		}
		return func(context.Context) (sdk.Credentials, error) { return k, nil }, nil
	}
	if err := checkEnvironment(); err != nil {
		return nil, err
	}
	s := &chain{}
	_, err := s.load(context.Background())
	return s.keys, err
}

// fileKeys reads the keys from a file. Its error shows nothing of the file's content.
func fileKeys(ctx context.Context, path string) (sdk.Credentials, error) {
	raw, err := config.ReadFile("kafka.sasl_aws_credentials_file", path)
	if err != nil {
		return sdk.Credentials{}, err
	}
	k := sdk.Credentials{}
	if raw = bytes.TrimSpace(bytes.TrimPrefix(raw, []byte("\ufeff"))); bytes.HasPrefix(raw, []byte("{")) { // as no shared credentials file begins
		k, err = exportedKeys(raw)
	} else {
		k, err = sharedKeys(ctx, path)
	}
	if err == nil {
		err = checkKeys(k)
	}
	if err != nil {
		return sdk.Credentials{}, fmt.Errorf("kafka.sasl_aws_credentials_file: the keys in the file %s cannot be used: %w", path, err)
	}
	return k, nil
}

// sharedKeys reads a profile of a shared credentials file.
func sharedKeys(ctx context.Context, path string) (sdk.Credentials, error) {
	profile := os.Getenv("AWS_PROFILE")
	if profile == "" {
		profile = awsconfig.DefaultSharedConfigProfile
	}
	shared, err := awsconfig.LoadSharedConfigProfile(ctx, profile, func(o *awsconfig.LoadSharedConfigOptions) {
		o.CredentialsFiles, o.ConfigFiles, o.Logger = []string{path}, []string{}, logging.Nop{}
	})
	if _, missing := errors.AsType[awsconfig.SharedConfigProfileNotExistError](err); missing {
		return sdk.Credentials{}, fmt.Errorf("it has no profile [%s]; AWS_PROFILE names another", profile)
	} else if err != nil { // which may quote a line
		return sdk.Credentials{}, fmt.Errorf("its profile [%s] needs aws_access_key_id and aws_secret_access_key", profile)
	}
	return shared.Credentials, nil
}

// exportedKeys reads what "aws configure export-credentials" prints. The SDK reads this from programs alone.
func exportedKeys(raw []byte) (sdk.Credentials, error) {
	var e struct {
		Version         int
		AccessKeyID     string `json:"AccessKeyId"`
		SecretAccessKey string
		SessionToken    string
		Expiration      time.Time
	}
	if err := json.Unmarshal(raw, &e); err != nil { // which may quote a value
		return sdk.Credentials{}, errors.New(`it is not the JSON that "aws configure export-credentials" prints`)
	}
	if e.Version > 1 {
		return sdk.Credentials{}, fmt.Errorf("its Version is %d; only 1 is known", e.Version)
	}
	return sdk.Credentials{AccessKeyID: e.AccessKeyID, SecretAccessKey: e.SecretAccessKey, SessionToken: e.SessionToken,
		CanExpire: !e.Expiration.IsZero(), Expires: e.Expiration}, nil
}

// checkKeys reports the mistakes in keys that can be seen without AWS.
func checkKeys(k sdk.Credentials) error {
	odd := func(r rune) bool { return r <= ' ' || r > '~' }
	switch {
	case !k.HasKeys():
		return errors.New("they lack the access key or its secret")
	case strings.ContainsFunc(k.AccessKeyID+k.SecretAccessKey+k.SessionToken, odd):
		return errors.New("the access key, its secret or the session token has blanks or other characters that none of them has")
	case k.Expired():
		return fmt.Errorf("they ended at %s, and were not renewed", k.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// checkEnvironment reports the variables that the SDK would pass over in silence, or would complain about at the first
// connection.
func checkEnvironment() error {
	switch id, secret := os.Getenv("AWS_ACCESS_KEY_ID"), os.Getenv("AWS_SECRET_ACCESS_KEY"); {
	case (id == "") != (secret == ""):
		return errors.New("of the environment variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set; set both, or none")
	case id != "":
		return nil
	}
	for _, name := range []string{"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"} {
		if path := os.Getenv(name); path != "" {
			if _, err := config.ReadSecretFile(name, path); err != nil {
				return err
			}
		}
	}
	if os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" && os.Getenv("AWS_ROLE_ARN") == "" {
		return errors.New("the environment variable AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not; set both")
	}
	return nil
}

// chain is what AWS's SDK finds.
type chain struct {
	mu       sync.Mutex
	provider sdk.CredentialsProvider // nil where the files and variables are to be read again
}

// load reads files and variables. The provider asks, keeps keys that end for as long as they live, and lets one question
// serve all callers.
func (s *chain) load(ctx context.Context) (sdk.CredentialsProvider, error) {
	client := awshttp.NewBuildableClient().WithTimeout(keysTimeout).WithTransportOptions(func(t *http.Transport) { t.Proxy = proxyOf })
	c, err := awsconfig.LoadDefaultConfig(ctx,
		awsconfig.WithHTTPClient(client),
		awsconfig.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient = client }),
		awsconfig.WithRetryer(func() sdk.Retryer { return sdk.NopRetryer{} }),
		awsconfig.WithCredentialsCacheOptions(func(o *sdk.CredentialsCacheOptions) { o.ExpiryWindow = keysSpare }),
		awsconfig.WithWebIdentityRoleCredentialOptions(func(o *stscreds.WebIdentityRoleOptions) {
			if o.RoleSessionName == "" {
				o.RoleSessionName = "postrider"
			}
		}),
		awsconfig.WithLogger(logging.Nop{}),
	)
	switch {
	case err != nil:
		return nil, noKeys(err)
	case c.Region == "" && os.Getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "" && os.Getenv("AWS_ACCESS_KEY_ID") == "":
		return nil, errors.New("the environment variable AWS_REGION must name the region, such as eu-west-1: AWS_WEB_IDENTITY_TOKEN_FILE is set, and STS of that region changes the token for keys")
	}
	return c.Credentials, nil
}

// keys is the keySource.
func (s *chain) keys(ctx context.Context) (sdk.Credentials, error) {
	provider, err := s.current(ctx)
	if err != nil {
		return sdk.Credentials{}, err
	}
	asking, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	k, err := provider.Retrieve(asking)
	if err != nil || !k.CanExpire {
		// The keys of a profile do not end. Its file may have others by the next connection, or be there at last.
		s.mu.Lock()
		if s.provider == provider {
			s.provider = nil
		}
		s.mu.Unlock()
	}
	switch {
	case ctx.Err() != nil:
		return sdk.Credentials{}, context.Cause(ctx)
	case err == nil:
		whole := k // the SDK has taken the spare time off
		whole.Expires = whole.Expires.Add(keysSpare)
		err = checkKeys(whole)
	}
	if err != nil {
		return sdk.Credentials{}, noKeys(err)
	}
	return k, nil
}

// current returns the provider. All connections that ask at a time share one.
func (s *chain) current(ctx context.Context) (_ sdk.CredentialsProvider, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider == nil {
		s.provider, err = s.load(ctx)
	}
	return s.provider, err
}

// noKeys says what to do about an error of the SDK, and takes out of it what is a secret: on ECS the address of the endpoint
// is enough to get the keys.
func noKeys(err error) error {
	text := err.Error()
	for _, name := range []string{"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN"} {
		if value := os.Getenv(name); value != "" {
			text = strings.ReplaceAll(text, value, "("+name+")")
		}
	}
	return fmt.Errorf("there are no keys of AWS: %s; give kafka.sasl_aws_credentials_file, kafka.sasl_aws_access_key_id with its secret, "+
		"or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, or see that the pod, task or instance has a role", text)
}

// proxyOf is the proxy of the environment, for requests with TLS alone: from the others it could read the keys.
func proxyOf(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	proxy, err := http.ProxyFromEnvironment(r)
	if err != nil { // which quotes it, with its password
		return nil, errors.New("the environment variable HTTPS_PROXY is not the URL of a proxy")
	}
	return proxy, nil
}
