package adopt_test

import (
	"testing"

	"github.com/postrider/postrider/internal/testenv/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }
