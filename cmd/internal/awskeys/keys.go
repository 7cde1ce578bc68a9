// Package awskeys finds the keys with which this process proves itself to AWS. It does without AWS's SDK, because it would
// need a hundredth of the SDK. The order and the formats follow "Standardized credential providers" in the AWS SDKs and
// Tools Reference Guide.
//
// The first of these counts, and no other is tried when it fails:
//
//   - kafka.sasl_aws_credentials_file, read again each time;
//   - kafka.sasl_aws_access_key_id with its secret and token;
//   - AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN;
//   - AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN: roles for service accounts of Kubernetes (IRSA), by STS;
//   - AWS_CONTAINER_CREDENTIALS_RELATIVE_URI or AWS_CONTAINER_CREDENTIALS_FULL_URI: ECS, and EKS Pod Identity.
//
// Left out are the metadata of EC2 instances, profiles that lead to other roles, single sign-on and credential_process:
// the AWS CLI knows them, and "aws configure export-credentials", run again before they end, writes what the first way
// reads.
package awskeys

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/cmd/internal/config"
)

// Keys prove a process to AWS.
type Keys struct {
	// AccessKeyID names them, and is no secret.
	AccessKeyID string
	// SecretAccessKey makes signatures.
	SecretAccessKey config.Secret
	// SessionToken goes with keys that end; it is empty for keys that do not end.
	SessionToken config.Secret
	// Expires is when they end; zero where that is not known.
	Expires time.Time
}

// Source is where keys come from.
type Source struct {
	check func() error
	keys  func(context.Context) (Keys, error)
}

// Check reads the files and variables on this machine, and connects to nothing.
func (s *Source) Check() error { return s.check() }

// Keys returns the keys that count now. The error says what was asked and what failed, and has no secret.
func (s *Source) Keys(ctx context.Context) (Keys, error) { return s.keys(ctx) }

// Find chooses the source by the settings and, where they name none, by the environment.
func Find(c config.Kafka, getenv func(string) string) (*Source, error) {
	switch {
	case c.SASLAWSCredentialsFile != "":
		profile := getenv("AWS_PROFILE")
		if profile == "" {
			profile = "default"
		}
		return local(func() (Keys, error) { return readFile(c.SASLAWSCredentialsFile, profile, time.Now()) }), nil
	case c.SASLAWSAccessKeyID != "":
		return given("kafka.sasl_aws_access_key_id", Keys{AccessKeyID: c.SASLAWSAccessKeyID, SecretAccessKey: c.SASLAWSSecretAccessKey, SessionToken: c.SASLAWSSessionToken}), nil
	case getenv("AWS_ACCESS_KEY_ID") != "" || getenv("AWS_SECRET_ACCESS_KEY") != "":
		k := Keys{AccessKeyID: getenv("AWS_ACCESS_KEY_ID"), SecretAccessKey: config.Secret(getenv("AWS_SECRET_ACCESS_KEY")), SessionToken: config.Secret(getenv("AWS_SESSION_TOKEN"))}
		if k.AccessKeyID == "" || k.SecretAccessKey == "" {
			return nil, errors.New("of the environment variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY only one is set; set both, or none")
		}
		return given("the environment variable AWS_ACCESS_KEY_ID", k), nil
	case getenv("AWS_WEB_IDENTITY_TOKEN_FILE") != "":
		return webIdentity(getenv)
	case getenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") != "" || getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		return container(getenv)
	}
	return nil, errors.New("kafka.sasl_mechanism is aws_msk_iam, and there are no keys of AWS: give kafka.sasl_aws_credentials_file, " +
		"kafka.sasl_aws_access_key_id with its secret, or AWS_ACCESS_KEY_ID with AWS_SECRET_ACCESS_KEY, " +
		"or give the pod or task a role (EKS Pod Identity, IRSA, ECS); the metadata of EC2 instances are not asked")
}

// local is a source that only reads.
func local(read func() (Keys, error)) *Source {
	return &Source{
		check: func() error { _, err := read(); return err },
		keys:  func(context.Context) (Keys, error) { return read() },
	}
}

// given is a source of keys that stay what they are; where says who gave them.
func given(where string, k Keys) *Source {
	return local(func() (Keys, error) {
		if err := k.check(time.Now()); err != nil {
			return Keys{}, fmt.Errorf("the keys of %s cannot be used: %w", where, err)
		}
		return k, nil
	})
}

// check reports the mistakes in keys that can be seen without AWS.
func (k Keys) check(now time.Time) error {
	switch {
	case k.AccessKeyID == "" || k.SecretAccessKey == "":
		return errors.New("they lack the access key or its secret")
	case !plain(k.AccessKeyID) || !plain(k.SecretAccessKey.Reveal()) || !plain(k.SessionToken.Reveal()):
		return errors.New("the access key, its secret or the session token has blanks or other characters that none of them has")
	case !k.Expires.IsZero() && !now.Before(k.Expires):
		return fmt.Errorf("they ended at %s, and nobody has renewed them", k.Expires.UTC().Format(time.RFC3339))
	}
	return nil
}

// plain reports whether a text has nothing but visible ASCII.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}
