package check

import (
	"strings"
	"testing"
)

// withRelay are sources and no desk, with values of the relay.
func withRelay(values string) string {
	return strings.Replace(manySources, "deployments: {", "deployments: {relay: {"+values+"}, ", 1) + fromSecret
}

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

		"sources in the settings":       {strings.Replace(enough, "config: {", "config: {sources: [{name: a}], ", 1), "sources"},
		"a folder in the settings":      {strings.Replace(enough, "config: {", "config: {sources_dir: /x, ", 1), "sources_dir"},
		"sources twice":                 {manySources + "sources: {secret: a, configMap: b}", "secret and configMap"},
		"two sources of one name":       {manySources + strings.Replace(inline, "name: billing", "name: orders", 1), "two sources called orders"},
		"the name of the desk's source": {manySources + strings.Replace(inline, "name: orders", "name: main", 1), "name"},
		"a name with a path":            {manySources + strings.Replace(inline, "name: orders", "name: ../orders", 1), "name"},
		"a Secret that is no name":      {manySources + "sources: {secret: Databases}", "secret"},
		"a ConfigMap that is no name":   {manySources + "sources: {configMap: a_b}", "configMap"},
		"a password of a source":        {manySources + strings.Replace(inline, "relay@", "relay:sesame@", 1), "url"},
		"an address in two ways":        {manySources + strings.Replace(inline, "url_file:", "url: 'postgres://a@b/c', url_file:", 1), "inline"},
		"no address":                    {manySources + strings.Replace(inline, "url_file: /etc/postrider/passwords/billing,", "", 1), "inline"},
		"no topics":                     {manySources + strings.Replace(inline, `, topics: {allow: ["orders.*"]}`, "", 1), "topics"},
		"an unknown key of a source":    {manySources + strings.Replace(inline, "sleep: 5m", "slep: 5m", 1), "slep"},
		"a file beside the source":      {manySources + strings.Replace(inline, "/etc/postrider/passwords/orders", ".orders", 1), "password_file"},
		"files over the sources":        {manySources + fromSecret + "secretFiles: [{secret: a, mountPath: /etc/postrider/sources}]", "mountPath"},
		"files in the sources":          {manySources + fromSecret + "secretFiles: [{secret: a, mountPath: /etc/postrider/sources/a}]", "mountPath"},
		"a password for all sources":    {strings.Replace(enough, "database: {", "database: {passwordKey: password, ", 1) + fromSecret, "PGPASSWORD"},
		"a desk's role and no desk":     {withRelay("roles: [relay, collector]"), "deployments.relay"},
		"the API and no desk":           {withRelay("api: true"), "deployments.relay"},
		"no desk and no sources":        {manySources, "or sources and no desk"},
		"a desk's Secret without a key": {manySources + fromSecret + "database: {existingSecret: x, urlKey: ''}", "no database"},
		"roles of no desk":              {manySources + fromSecret + "migration: {roles: true}", "migration.roles"},
		"owners of no sources":          {enough + "migration: {sources: {secret: owners}}", "migration.sources.secret"},
		"a canary that is not migrated": {enough + fromSecret + "migration: {sources: {canary: orders}}", "migration.sources.canary"},
		"more relays of one outbox":     {enough + "autoscaling: {enabled: true}", "autoscaling.enabled"},
		"more at least than at most":    {manySources + fromSecret + "autoscaling: {enabled: true, minReplicas: 7}", "autoscaling.minReplicas"},
		"a use of unknown CPU":          {withRelay("resources: {requests: {cpu: null}}") + "autoscaling: {enabled: true}", "requests.cpu"},
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
