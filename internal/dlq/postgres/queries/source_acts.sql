-- Of the commands $1, about the letters $2 of source $3: whether this desk has the command, and whether it has the letter.
select (select true from postrider.dlq_command c where c.dlq_command_uuid = w.command limit 1) is not null,
       (select true from postrider.dlq_letter l where l.letter_id = w.letter limit 1) is not null
from unnest($1::uuid[], $2::text[]) with ordinality as w(command, letter, place)
order by w.place
