(ns main
  (:require [clojure.java.io :as io]
            [clojure.string :as str])
  (:import (com.sun.net.httpserver HttpExchange HttpHandler HttpServer)
           (java.net InetSocketAddress)
           (java.nio.file Files)
           (java.util.concurrent Executors)))

(def types {"html" "text/html" "js" "text/javascript" "css" "text/css"})

(defn handle [^HttpExchange exchange]
  (with-open [exchange exchange]
    (let [asked (.getPath (.normalize (.getRequestURI exchange)))
          file (io/file "public" (str "." (if (str/ends-with? asked "/") (str asked "index.html") asked)))]
      (if (.isFile file)
        (let [content (Files/readAllBytes (.toPath file))
              type (types (last (str/split (.getName file) #"\.")) "application/octet-stream")]
          (.set (.getResponseHeaders exchange) "Content-Type" type)
          (.sendResponseHeaders exchange 200 (alength content))
          (.write (.getResponseBody exchange) content))
        (.sendResponseHeaders exchange 404 -1)))))

(doto (HttpServer/create (InetSocketAddress. (parse-long (System/getenv "PORT"))) 0)
  (.createContext "/" (reify HttpHandler (handle [_ exchange] (handle exchange))))
  (.setExecutor (Executors/newCachedThreadPool))
  (.start))
