(ns sign.server
  (:require [clojure.java.io :as io]
            [sessions]
            [sign.json :as json]
            [users])
  (:import (com.sun.net.httpserver HttpServer HttpHandler)
           (java.net InetSocketAddress)
           (java.util.concurrent Executors)))

(defn sid [exchange]
  (->> (or (.getFirst (.getRequestHeaders exchange) "Cookie") "")
       (re-find #"\bsid=([^; ]*)")
       second))

(defmulti api (fn [exchange] [(.getRequestMethod exchange) (.. exchange getRequestURI getPath)]))

(defmethod api ["GET" "/"] [_]
  {:status 200 :file "public/index.html"})

(defmethod api ["GET" "/api/me"] [exchange]
  (if-let [name (sessions/owner (sid exchange))]
    {:status 200 :json {:name name}}
    {:status 401 :json {:error "nobody"}}))

(defmethod api ["POST" "/api/login"] [exchange]
  (let [{:keys [username password]} (json/read-strings (slurp (.getRequestBody exchange)))]
    (if-let [name (users/authenticated username password)]
      {:status 200 :json {:name name} :cookie (sessions/begin name)}
      {:status 401 :json {:error "refused"}})))

(defmethod api ["POST" "/api/logout"] [exchange]
  (sessions/end (sid exchange))
  {:status 200 :json {} :cookie ""})

(defmethod api :default [_]
  {:status 404 :json {:error "no such thing"}})

(defn answer! [exchange]
  (let [{:keys [status json file cookie]} (api exchange)
        headers (.getResponseHeaders exchange)]
    (when cookie (.add headers "Set-Cookie" (str "sid=" cookie "; Path=/; HttpOnly")))
    (.add headers "Content-Type" (if file "text/html; charset=utf-8" "application/json"))
    (.sendResponseHeaders exchange status 0)
    (with-open [out (.getResponseBody exchange)]
      (io/copy (if file (io/file file) (json/write-strings json)) out))))

(defn -main [& _]
  (let [server (HttpServer/create (InetSocketAddress. "0.0.0.0" (parse-long (System/getenv "PORT"))) 0)]
    (.createContext server "/" (reify HttpHandler (handle [_ exchange] (answer! exchange))))
    (.setExecutor server (Executors/newFixedThreadPool 8))
    (.start server)))
