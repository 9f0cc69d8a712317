(ns main
  (:require [room :refer [join leave say]]
            [socket]))

(def files
  {"/" ["index.html" "text/html; charset=utf-8"]
   "/chat.js" ["chat.js" "text/javascript; charset=utf-8"]})

(defn handler [{:keys [uri]}]
  (if-let [[file type] (files uri)]
    {:status "200 OK" :type type :body (slurp (str "public/" file))}
    {:status "404 Not Found" :type "text/plain" :body "no such page"}))

(socket/run (parse-long (System/getenv "PORT")) handler "/ws" {:join join :leave leave :say say})
