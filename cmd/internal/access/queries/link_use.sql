-- The first use wins: of two at once one finds the row used. A link ends with its key.
update postrider.access_link l set used_at = now()
where l.access_link_id = $1 and l.secret_hash = $2 and l.used_at is null and l.expires_at > now()
  and not exists (select from postrider.access_key k where k.access_key_id = l.access_key_id
                  and (k.revoked_at is not null or k.expires_at <= now()))
returning l.access_key_id, l.name, l.scopes, l.sources
