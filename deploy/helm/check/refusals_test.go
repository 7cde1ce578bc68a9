package check

import (
	"strings"
	"testing"
)

// A wrong value is refused before anything is changed, and the message names it.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ values, says string }{
		"an unknown value":        {enough + "replicaCount: 3", "replicaCount"},
		"an unknown role":         {enough + "deployments: {relay: {roles: [sender]}}", "roles"},
		"the role http":           {enough + "deployments: {relay: {roles: [relay, http]}}", "roles"},
		"a role twice":            {enough + "deployments: {relay: {roles: [relay, relay]}}", "roles"},
		"a long name":             {enough + "deployments: {a-very-long-name-of-a-part: {enabled: true, roles: [relay], api: false, replicas: 1}}", "a-very-long-name"},
		"replicas as text":        {enough + `deployments: {relay: {replicas: "2"}}`, "replicas"},
		"scaling by the backlog":  {enough + "keda: {enabled: true}", "keda"},
		"no brokers":              {"database: {existingSecret: x}", "config.kafka.brokers"},
		"a broker without a port": {"database: {existingSecret: x}\nconfig: {kafka: {brokers: [kafka]}}", "brokers"},
		"no database":             {"config: {kafka: {brokers: [kafka:9092]}}", "database.existingSecret"},
		"a password in the URL":   {"config: {kafka: {brokers: [kafka:9092]}, database: {url: 'postgres://u:sesame@db/app'}}", "url"},
		"a password in the words": {"config: {kafka: {brokers: [kafka:9092]}, database: {url: 'host=db password=sesame'}}", "url"},
		"a password in the query": {"config: {kafka: {brokers: [kafka:9092]}, database: {url: 'postgres://u@db/app?password=sesame'}}", "url"},
		"a password of brokers":   {strings.Replace(enough, "[kafka:9092]", "[kafka:9092], sasl_password: sesame", 1), "sasl_password"},
		"a password as a number":  {strings.Replace(enough, "[kafka:9092]", "[kafka:9092], sasl: {password: 4711}", 1), "password"},
		"a secret of AWS":         {strings.Replace(enough, "[kafka:9092]", "[kafka:9092], sasl: {aws_secret_access_key: sesame}", 1), "aws_secret_access_key"},
		"a token of AWS":          {strings.Replace(enough, "[kafka:9092]", "[kafka:9092], sasl_aws_session_token: sesame", 1), "sasl_aws_session_token"},
		"a key of a collector":    {strings.Replace(enough, "config: {", "config: {tracing: {headers: 'x=sesame'}, ", 1), "headers"},
		"the chart's own setting": {enough + "extraEnv: [{name: HTTP_ADDRESS, value: x}]", "extraEnv"},
		"an address of its own":   {strings.Replace(enough, "config: {", "config: {http: {address: ':1'}, ", 1), "address"},
		"a short end":             {enough + "terminationGracePeriodSeconds: 5", "terminationGracePeriodSeconds"},
		"a digest that is none":   {enough + "image: {digest: latest}", "digest"},
		"files over our own":      {enough + "secretFiles: [{secret: a, mountPath: /etc/postrider}]", "mountPath"},
		"no ports of brokers":     {enough + "networkPolicy: {kafka: {ports: []}}", "ports"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, err := run(t, c.values, "template", "r", chart)
			if err == nil || !strings.Contains(errs, c.says) {
				t.Errorf("it is not refused, or not for %q: %v\n%s\n%s", c.says, err, errs, out)
			}
			if strings.Contains(errs, "sesame") {
				t.Errorf("the message has the password: %s", errs)
			}
		})
	}
}
