(ns server
  "One board for everybody, kept here: whoever opens the page sees the game as it stands."
  (:require [oxo])
  (:import (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
           (java.net InetSocketAddress)
           (java.util.concurrent Executors)))

(def board (atom oxo/empty-board))

(defn change! [path body]
  (if (= path "/new")
    (reset! board oxo/empty-board)
    (swap! board oxo/play (some-> (re-find #"\d" body) parse-long))))

(defn answer [^HttpExchange exchange status headers ^String body]
  (let [bytes (.getBytes body "UTF-8")]
    (doseq [[k v] headers] (.set (.getResponseHeaders exchange) k v))
    (.sendResponseHeaders exchange status (if (seq bytes) (count bytes) -1))
    (.write (.getResponseBody exchange) bytes)))

(defn handle [^HttpExchange exchange]
  (with-open [exchange exchange]
    (if (= (.getRequestMethod exchange) "POST")
      (do (change! (.getPath (.getRequestURI exchange)) (slurp (.getRequestBody exchange)))
          (answer exchange 303 {"Location" "/"} ""))
      (answer exchange 200 {"Content-Type" "text/html; charset=utf-8" "Cache-Control" "no-store"} (oxo/page @board)))))

(doto (HttpServer/create (InetSocketAddress. (parse-long (System/getenv "PORT"))) 0)
  (.createContext "/" (reify HttpHandler (handle [_ exchange] (handle exchange))))
  (.setExecutor (Executors/newCachedThreadPool))
  (.start))
