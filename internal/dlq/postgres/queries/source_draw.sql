-- Draws the number of a call to source $1, and says up to which call its answers were noted.
update postrider.dlq_source s set drawn = s.drawn + 1 where s.source = $1 and num_nulls(s.stopped, s.forgotten_at) = 2
returning s.drawn, s.answered
