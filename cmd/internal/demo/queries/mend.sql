-- What the developer of the order service does when the mistake is found: the value of the header becomes text.
create or replace function demo.urgent_headers() returns jsonb language sql immutable as 'select jsonb_build_object(''priority'', ''5'')'
