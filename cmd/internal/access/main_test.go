package access_test

import (
	"testing"

	"github.com/postrider/postrider/migrations/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
