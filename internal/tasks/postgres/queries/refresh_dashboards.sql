select postrider.refresh_dashboards(p_min_age => $1::bigint * interval '1 microsecond')
