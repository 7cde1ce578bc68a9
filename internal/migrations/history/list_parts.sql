select p.part from postrider.schema_part p order by array_position('{outbox,tasks,desk}', p.part), p.part;
