select l.name, l.used_at is not null,
       l.expires_at <= now() or exists (select from postrider.access_key k where k.access_key_id = l.access_key_id
                                        and (k.revoked_at is not null or k.expires_at <= now()))
from postrider.access_link l where l.access_link_id = $1 and l.secret_hash = $2
