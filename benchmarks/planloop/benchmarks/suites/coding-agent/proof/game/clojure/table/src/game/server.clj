(ns game.server
  (:require [clojure.java.io :as io])
  (:import (com.sun.net.httpserver HttpServer HttpHandler)
           (java.net InetSocketAddress)))

(defn -main []
  (let [page (io/file "public/index.html")]
    (doto (HttpServer/create (InetSocketAddress. "0.0.0.0" (Integer/parseInt (System/getenv "PORT"))) 0)
      (.createContext "/" (reify HttpHandler
                            (handle [_ exchange]
                              (.add (.getResponseHeaders exchange) "Content-Type" "text/html; charset=utf-8")
                              (.sendResponseHeaders exchange 200 0)
                              (with-open [out (.getResponseBody exchange)]
                                (io/copy page out)))))
      .start)))
