select h.cause, h.scope, count(*), extract(epoch from now() - min(h.held_at))::float8, min(h.topic), coalesce(min(h.error_code), '')
from postrider.outbox_hold h
where h.cause in ('halted', 'route', 'circuit_breaker', 'infrastructure') and not h.draining
group by h.cause, h.scope
order by h.cause, h.scope
