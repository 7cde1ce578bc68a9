select postrider.refresh_dashboards($1, $2, $3, $4, $5::bigint * interval '1 microsecond')
