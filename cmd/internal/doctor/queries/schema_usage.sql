select has_schema_privilege('postrider', 'usage')
