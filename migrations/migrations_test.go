package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/postrider/postrider/migrations"
)

func TestLoadReadsPairsInOrder(t *testing.T) {
	t.Parallel()
	all := load(t, map[string]string{
		"0002_second_step.up.sql":   "select 2;\r\nselect 22;\r\n",
		"0002_second_step.down.sql": "select -2",
		"0001_first.down.sql":       "select -1",
		"0001_first.up.sql":         "select 1",
		"README.md":                 "not a migration",
		"folder/0009_other.up.sql":  "select 9",
	})
	if len(all) != 2 {
		t.Fatalf("got %d migrations, want 2", len(all))
	}
	first, second := all[0], all[1]
	if first.Version != 1 || first.Name != "first" || first.Up != "select 1" || first.Down != "select -1" {
		t.Errorf("first: %+v", first)
	}
	if second.String() != "0002_second_step" || second.File(migrations.Down) != "0002_second_step.down.sql" {
		t.Errorf("second: %s, %s", second, second.File(migrations.Down))
	}
	sum := sha256.Sum256([]byte("select 2;\nselect 22;\n"))
	if want := hex.EncodeToString(sum[:]); second.Checksum != want {
		t.Errorf("checksum %s, want %s, that of the file with LF", second.Checksum, want)
	}
}

func TestLoadOfNothing(t *testing.T) {
	t.Parallel()
	if all := load(t, nil); len(all) != 0 {
		t.Errorf("got %v", all)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	pair := func(name string) map[string]string {
		return map[string]string{name + ".up.sql": "select 1", name + ".down.sql": "select 1"}
	}
	for name, test := range map[string]struct {
		content []map[string]string
		want    []string // in the error
	}{
		"gap":               {[]map[string]string{pair("0001_a"), pair("0003_c")}, []string{"0003_c.up.sql", "0002 is missing"}},
		"not from 1":        {[]map[string]string{pair("0002_b")}, []string{"0002_b.up.sql", "0001 is missing"}},
		"version 0":         {[]map[string]string{pair("0000_zero")}, []string{"0000_zero.up.sql", "start at 0001"}},
		"duplicate":         {[]map[string]string{pair("0001_a"), pair("0001_b")}, []string{"0001_b.up.sql", "taken by 0001_a"}},
		"missing down":      {[]map[string]string{{"0001_a.up.sql": "select 1"}}, []string{"0001_a.up.sql", "0001_a.down.sql is missing"}},
		"missing up":        {[]map[string]string{{"0001_a.down.sql": "select 1"}}, []string{"0001_a.down.sql", "0001_a.up.sql is missing"}},
		"three digits":      {[]map[string]string{pair("001_a")}, []string{"001_a.up.sql", "NNNN_name"}},
		"capital":           {[]map[string]string{pair("0001_A")}, []string{"0001_A.up.sql", "NNNN_name"}},
		"no direction":      {[]map[string]string{{"0001_a.sql": "select 1"}}, []string{"0001_a.sql", "NNNN_name"}},
		"empty":             {[]map[string]string{{"0001_a.up.sql": "-- nothing;\n /* here */ ;", "0001_a.down.sql": "select 1"}}, []string{"0001_a.up.sql", "no SQL statement"}},
		"commit":            {[]map[string]string{{"0001_a.up.sql": "select 1;\n\ncommit;", "0001_a.down.sql": "select 1"}}, []string{"0001_a.up.sql", "line 3", "COMMIT is not allowed"}},
		"prepared":          {[]map[string]string{{"0001_a.up.sql": "prepare p as select 1", "0001_a.down.sql": "Prepare\ntransaction 'x'"}}, []string{"0001_a.down.sql", "PREPARE is not allowed"}},
		"several at a time": {[]map[string]string{pair("0001_A"), pair("0003_c")}, []string{"0001_A.up.sql", "0001_A.down.sql", "0003_c.up.sql"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := map[string]string{}
			for _, part := range test.content {
				for file, text := range part {
					content[file] = text
				}
			}
			all, err := migrations.Load(files(content))
			if err == nil {
				t.Fatalf("loaded %v", all)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %q:\n%v", want, err)
				}
			}
		})
	}
}
