-- make_interval of null is null, which takes the step's own pause.
select postrider.fail_step($1::uuid, $2::text, $3::boolean, make_interval(secs => $4::double precision), $5::integer)
