package pgserver

import "testing"

func TestUnfit(t *testing.T) {
	t.Parallel()
	for version, unfit := range map[string]bool{
		"9.6.24": true, "13.22": true, "14.0": false, "15.18 (Debian 15.18-0+deb12u1)": false, "17.7": false, "18beta1": true, "18.0": true,
		"18.1 (Homebrew)": true, "18.2": false, "18.10": false, "19devel": false, "15.2-YB-2.25.0.0-b0": true, "CockroachDB CCL v26.3.0": true, "": false, "pooler": false,
	} {
		why, remedy := Unfit(version)
		if (why != "") != unfit || (remedy != "") != unfit {
			t.Errorf("%q is unfit: %q, %q", version, why, remedy)
		}
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"PostgreSQL 15.18 (Debian 15.18-0+deb12u1) on x86_64-pc-linux-gnu, compiled by gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit": "",
		"PostgreSQL 16.4 on aarch64-unknown-linux-gnu, compiled by aarch64-unknown-linux-gnu-gcc (GCC) 9.5.0, 64-bit":                 "",
		"PostgreSQL 17.5 (EnterpriseDB Advanced Server 17.5.0) on x86_64-pc-linux-gnu":                                                "",
		"PostgreSQL 13.22 on x86_64-pc-linux-gnu":                                                                                     "PostgreSQL 13.22",
		"PostgreSQL 18.0 on x86_64-pc-linux-gnu":                                                                                      "PostgreSQL 18.0",
		"CockroachDB CCL v26.3.1 (x86_64-pc-linux-gnu, built 2026/09/01 12:00:00, go1.25.1)":                                          "CockroachDB CCL v26.3.1 (x86_64-pc-linux-gnu, built 2026/09/01 12:00:00, go1.25.1)",
		"PostgreSQL 15.12-YB-2025.2.0.0-b0 on x86_64-pc-linux-gnu, compiled by clang version 17.0.6":                                  "PostgreSQL 15.12-YB-2025.2.0.0-b0",
		"PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), Redshift 1.0.77467":   "PostgreSQL 8.0.2 on i686-pc-linux-gnu, compiled by GCC gcc (GCC) 3.4.2 20041017 (Red Hat 3.4.2-6.fc3), Redshift 1.0.77467",
		"CrateDB 5.9.0 (built 1234567/2024-10-01T00:00:00Z, Linux 6.1 amd64, OpenJDK 64-Bit Server VM 22.0.2)":                        "CrateDB 5.9.0 (built 1234567/2024-10-01T00:00:00Z, Linux 6.1 amd64, OpenJDK 64-Bit Server VM 22.0.2)",
		"": "",
	} {
		name, why, remedy := Foreign(text)
		if name != want || (why != "") != (want != "") || (remedy != "") != (want != "") {
			t.Errorf("%q: %q, %q, %q", text, name, why, remedy)
		}
	}
}
