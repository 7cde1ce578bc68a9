package shop;

import java.net.URI;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;

/** The database of DATABASE_URL, as JDBC writes its address. */
final class Database {

  static String url() {
    URI uri = URI.create(System.getenv("DATABASE_URL"));
    String[] login = uri.getUserInfo().split(":", 2);
    String query = "user=" + encoded(login[0]) + (login.length > 1 ? "&password=" + encoded(login[1]) : "");
    return "jdbc:postgresql://" + uri.getHost() + ":" + (uri.getPort() < 0 ? 5432 : uri.getPort()) + uri.getPath() + "?" + query + (uri.getRawQuery() == null ? "" : "&" + uri.getRawQuery());
  }

  private static String encoded(String text) {
    return URLEncoder.encode(text, StandardCharsets.UTF_8);
  }

  private Database() {}
}
