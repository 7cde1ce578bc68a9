select session_user::text
