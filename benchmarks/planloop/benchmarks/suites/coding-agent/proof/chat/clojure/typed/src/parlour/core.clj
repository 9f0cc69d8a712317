(ns parlour.core
  (:require [clojure.java.io :as io]
            [room]
            [socket]))

(def page (delay (slurp (io/file "static" "index.html"))))

(defn message? [text]
  (and (re-find #"\"type\"\s*:\s*\"message\"" text) (re-find #"\"body\"\s*:\s*\"" text)))

(defn say [client text]
  (when (message? text)
    (room/say client text)))

(defn start [_]
  (socket/run (parse-long (System/getenv "PORT"))
              (fn [_] {:status "200 OK" :type "text/html" :body @page})
              "/socket"
              {:join room/join :leave room/leave :say say}))
