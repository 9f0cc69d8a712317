(ns main
  (:require [reply :refer [reply]])
  (:import (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
           (java.net InetSocketAddress)
           (java.util.concurrent Executors)))

(defn send! [^HttpExchange exchange status ^bytes body]
  (.sendResponseHeaders exchange status (if (zero? (alength body)) -1 (alength body)))
  (with-open [out (.getResponseBody exchange)] (.write out body)))

(defn handle [^HttpExchange exchange]
  (let [path (.getPath (.getRequestURI exchange))
        body (.readAllBytes (.getRequestBody exchange))]
    (cond
      (= path "/") (send! exchange 200 (.getBytes "echo is up; POST to /echo"))
      (and (= path "/echo") (= (.getRequestMethod exchange) "POST"))
      (let [{:keys [body type]} (reply body (.getFirst (.getRequestHeaders exchange) "Content-Type"))]
        (when type (.set (.getResponseHeaders exchange) "Content-Type" type))
        (send! exchange 200 body))
      :else (send! exchange 404 (.getBytes "not found")))))

(doto (HttpServer/create (InetSocketAddress. (parse-long (System/getenv "PORT"))) 0)
  (.createContext "/" (reify HttpHandler (handle [_ exchange] (handle exchange))))
  (.setExecutor (Executors/newCachedThreadPool))
  (.start))
