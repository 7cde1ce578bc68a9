-- Notes that source $1 has answered call $2.
update postrider.dlq_source s set answered = $2 where s.source = $1 and s.answered < $2
