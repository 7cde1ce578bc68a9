-- Stops source $1 for the reason $2, unless what the reason follows from has changed since it was read: answered $3 and receipt $4, of
-- a source that went back; of a desk that did, that the source has heard of call $5.
update postrider.dlq_source s set stopped = $2, stopped_at = clock_timestamp()
where s.source = $1 and num_nulls(s.stopped, s.forgotten_at) = 2
  and case $2 when 'desk_rewound' then s.drawn < $5 else s.answered = $3 and s.receipt = $4 end
