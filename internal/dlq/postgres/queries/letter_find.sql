-- Which of these letters are recorded already.
select letter_id from postrider.dlq_letter where letter_id = any ($1::text[])
