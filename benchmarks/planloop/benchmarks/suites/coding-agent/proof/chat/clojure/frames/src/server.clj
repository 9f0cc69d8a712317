(ns server
  (:require [room]
            [socket]))

(defn page [{:keys [method uri]}]
  (if (= [method uri] ["GET" "/"])
    {:status 200 :type "text/html; charset=utf-8" :body (slurp "public/index.html")}
    {:status 404 :type "text/html" :body "<h1>404</h1>"}))

(defn -main [& _]
  (let [port (Integer/parseInt (System/getenv "PORT"))]
    (socket/run port page "/chat" {:join room/join, :leave room/leave, :say room/say})))
