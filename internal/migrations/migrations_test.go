package migrations_test

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/migrations"
)

func TestLoadReadsRoomsInOrder(t *testing.T) {
	t.Parallel()
	all, err := migrations.Load(files(map[string]string{
		"a/0002_second_step.sql":  "select 2;\r\nselect 22;\r\n",
		"a/0001_first.sql":        "select 1",
		"a/README.md":             "not a migration",
		"a/folder/0009_other.sql": "select 9",
		"b/0001_first.sql":        "select 1",
		"b/code/f.sql":            "create function f() returns int language sql as 'select 1';",
		"c/0001_first.sql":        "not read",
	}), "b", "a")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Name != "b" || all[1].Name != "a" || len(all[1].Migrations) != 2 || len(all[1].Code) != 0 || all[1].Checksum != "" {
		t.Fatalf("got %+v", all)
	}
	first, second := all[1].Migrations[0], all[1].Migrations[1]
	if first.Version != 1 || first.Name != "first" || first.SQL != "select 1" || first.Room != "a" {
		t.Errorf("first: %+v", first)
	}
	if second.String() != "a/0002_second_step" || second.File() != "a/0002_second_step.sql" {
		t.Errorf("second: %s, %s", second, second.File())
	}
	sum := sha256.Sum256([]byte("select 2;\nselect 22;\n"))
	if want := hex.EncodeToString(sum[:]); second.Checksum != want {
		t.Errorf("checksum %s, want %s, that of the file with LF", second.Checksum, want)
	}
	if code := all[0].Code; len(code) != 1 || code[0].File() != "b/code/f.sql" || len(all[0].Checksum) != 64 {
		t.Errorf("code: %+v, checksum %s", code, all[0].Checksum)
	}
}

// TestCodeIsArranged: functions come first, then views, each behind the views that it names, then triggers.
func TestCodeIsArranged(t *testing.T) {
	t.Parallel()
	rooms := load(t, map[string]string{
		"a/0001_first.sql":     "select 1",
		"a/code/a_trigger.sql": "-- why\ncreate or replace trigger a_trigger before insert on t execute function z_function();",
		"a/code/b_both.sql":    "create function b_both() returns trigger language plpgsql as '';\ncreate trigger b_both before insert on t execute function b_both();",
		"a/code/c_view.sql":    "create view c_view as select * from d_view, d;",
		"a/code/d_view.sql":    "create or replace view d_view as select z_function();",
		"a/code/z_function.sql": "create or replace function z_function() returns int language sql as 'select 1 from c_view';\n" +
			"create function z_function(int) returns int language sql as 'select 1';",
	})
	var got []string
	for _, f := range rooms[0].Code {
		got = append(got, f.Name)
	}
	if want := []string{"b_both", "z_function", "d_view", "c_view", "a_trigger"}; !slices.Equal(got, want) {
		t.Errorf("the order is %v, want %v", got, want)
	}
}

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		content map[string]string
		want    []string // in the error
	}{
		"gap":               {map[string]string{"a/0001_a.sql": "select 1", "a/0003_c.sql": "select 1"}, []string{"a/0003_c.sql", "0002 is missing"}},
		"not from 1":        {map[string]string{"a/0002_b.sql": "select 1"}, []string{"a/0002_b.sql", "0001 is missing"}},
		"version 0":         {map[string]string{"a/0000_zero.sql": "select 1"}, []string{"a/0000_zero.sql", "start at 0001"}},
		"duplicate":         {map[string]string{"a/0001_a.sql": "select 1", "a/0001_b.sql": "select 1"}, []string{"a/0001_b.sql", "taken by a/0001_a.sql"}},
		"three digits":      {map[string]string{"a/001_a.sql": "select 1"}, []string{"a/001_a.sql", "NNNN_name"}},
		"capital":           {map[string]string{"a/0001_A.sql": "select 1"}, []string{"a/0001_A.sql", "NNNN_name"}},
		"direction":         {map[string]string{"a/0001_a.up.sql": "select 1"}, []string{"a/0001_a.up.sql", "NNNN_name"}},
		"no migration":      {map[string]string{"a/code/f.sql": "select 1"}, []string{"a: the room has no file", "0001_baseline"}},
		"no room":           {map[string]string{"b/0001_a.sql": "select 1"}, []string{"list the files of a"}},
		"name of code":      {map[string]string{"a/0001_a.sql": "select 1", "a/code/F-1.sql": "select 1"}, []string{"a/code/F-1.sql", "that of the function"}},
		"empty":             {map[string]string{"a/0001_a.sql": "-- nothing;\n /* here */ ;"}, []string{"a/0001_a.sql", "no SQL statement"}},
		"commit":            {map[string]string{"a/0001_a.sql": "select 1;\n\ncommit;"}, []string{"a/0001_a.sql", "line 3", "COMMIT is not allowed"}},
		"prepared":          {map[string]string{"a/0001_a.sql": "prepare p as select 1;\nPrepare\ntransaction 'x'"}, []string{"a/0001_a.sql", "PREPARE is not allowed"}},
		"commit in code":    {map[string]string{"a/0001_a.sql": "select 1", "a/code/f.sql": "begin;"}, []string{"a/code/f.sql", "BEGIN is not allowed"}},
		"several at a time": {map[string]string{"a/0001_A.sql": "select 1", "a/0003_c.sql": "select 1", "a/code/F.sql": "select 1"}, []string{"a/0001_A.sql", "a/0003_c.sql", "a/code/F.sql"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := migrations.Load(files(test.content), "a")
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
