(ns echo.server
  (:import (com.sun.net.httpserver HttpServer HttpHandler)
           (java.net InetSocketAddress)
           (java.util.concurrent Executors)))

(def page "<!doctype html><title>echo</title><h1>Up and running</h1>")

(defn on [server path method f]
  (.createContext
    server path
    (reify HttpHandler
      (handle [_ exchange]
        (with-open [exchange exchange]
          (if (and (= path (.. exchange getRequestURI getPath)) (= method (.getRequestMethod exchange)))
            (f exchange)
            (.sendResponseHeaders exchange 404 -1)))))))

(defn -main [& _]
  (let [port (Integer/parseInt (System/getenv "PORT"))
        server (HttpServer/create (InetSocketAddress. "0.0.0.0" port) 0)]
    (on server "/" "GET"
        (fn [exchange]
          (.add (.getResponseHeaders exchange) "Content-Type" "text/html")
          (.sendResponseHeaders exchange 200 0)
          (spit (.getResponseBody exchange) page)))
    (on server "/echo" "POST"
        (fn [exchange]
          (when-let [type (.getFirst (.getRequestHeaders exchange) "Content-Type")]
            (.add (.getResponseHeaders exchange) "Content-Type" type))
          (.sendResponseHeaders exchange 200 0)
          (.transferTo (.getRequestBody exchange) (.getResponseBody exchange))))
    (.setExecutor server (Executors/newFixedThreadPool 16))
    (.start server)))
